/** A caller as its credentials name it, before the bus has admitted it. */
import type { BusCredentials } from "../../../shared/bus/connection.ts";
import type { ClientRole } from "../../../shared/protocol/roles.ts";

export interface CallerIdentity {
  /** The same for all requests with the same credentials, and for no others. */
  readonly key: string;
  /**
   * The client to which limits apply. An API key is one client: it takes nothing from other keys of the same name. The tokens of one name at
   * one issuer are one client, because their holder gets new ones at will.
   */
  readonly client: string;
  readonly tenant: string;
  /** The token of the principal. */
  readonly name: string;
  /** null: only the bus knows it. */
  readonly role: ClientRole | null;
  /** The operations for which the credentials are. null: all that the role may do. */
  readonly scopes: readonly string[] | null;
  /** True: an API key, which a program holds. Absent: no. */
  readonly isApiKey?: boolean;
  /** In milliseconds since the epoch. null: no end. */
  readonly expiresAt: number | null;
  /** The principal's own credentials for the bus. undefined: a bus without credentials. Throws FleetError. */
  credentials(): BusCredentials | undefined | Promise<BusCredentials>;
}
