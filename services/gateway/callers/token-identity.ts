/**
 * Callers with a token of an identity provider (OIDC) or of a Kubernetes service account. The gateway verifies it with the keys of
 * its issuer, and remembers that for a while, because a signature costs as much as a read.
 */
import { hash } from "node:crypto";
import type { Issuers, VerifiedToken } from "../../../shared/bus/access/issuers/issuers.ts";
import { TokenRefusal } from "../../../shared/bus/access/issuers/refusal.ts";
import type { BusCredentials } from "../../../shared/bus/connection.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { CallerIdentity } from "./identity.ts";

/** A key that its issuer has withdrawn is trusted for this time more. */
const KEPT_MS = 60_000;
const TOKENS_MAX = 1_000;

/** The credentials for the bus of the holder of a token. */
export type CredentialsOfToken = (token: string, verified: VerifiedToken["grant"]) => Promise<BusCredentials>;

interface KnownToken {
  readonly identity: CallerIdentity;
  readonly verifiedAt: number;
}

export class TokenIdentities {
  readonly #issuers: Issuers;
  readonly #credentials: CredentialsOfToken;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** By the hash of the token. */
  readonly #known = new Map<string, KnownToken>();

  constructor(
    issuers: Issuers,
    credentials: CredentialsOfToken,
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
  ) {
    this.#issuers = issuers;
    this.#credentials = credentials;
    this.#clock = clock;
    this.#log = log;
  }

  /** Throws UNAUTHORIZED, or UNAVAILABLE while the keys of the issuer are unknown. */
  async identify(token: string): Promise<CallerIdentity> {
    const digest = hash("sha256", token);
    const now = this.#clock.monotonic();
    const known = this.#known.get(digest);
    if (known !== undefined && now - known.verifiedAt < KEPT_MS) return known.identity;
    this.#known.delete(digest);
    const { grant, issuer } = await this.#issuers.verify(token).catch((error: unknown) => {
      throw this.#refusal(error);
    });
    const identity: CallerIdentity = {
      key: `token ${digest}`,
      client: `${issuer} ${grant.tenant} ${grant.name}`,
      tenant: grant.tenant,
      name: grant.name,
      role: grant.role,
      scopes: grant.scopes,
      expiresAt: grant.expiresAt * 1_000,
      credentials: () => this.#credentials(token, grant),
    };
    if (this.#known.size >= TOKENS_MAX) this.#known.delete(this.#known.keys().next().value as string);
    this.#known.set(digest, { identity, verifiedAt: now });
    return identity;
  }

  /** The holder learns only whether the token was refused; the log has the reason. */
  #refusal(error: unknown): FleetError {
    const reason = error instanceof TokenRefusal ? error.reason : "failed";
    // The text of a library's error may repeat parts of the token, so only its code is logged.
    const { code } = ((error as Error).cause ?? {}) as { readonly code?: unknown };
    this.#log.warn({ reason, code }, "a token was refused");
    if (reason === "issuer_unavailable")
      return new FleetError("UNAVAILABLE", "the keys of the token's issuer are not available", {
        retryAfterMs: LIMITS.overload_retry_ms,
      });
    return new FleetError("UNAUTHORIZED", "the token was refused");
  }
}
