/**
 * Reports the refusals of the gateway and of the bus to the access log: those of known callers in their name and tenant, over their own
 * connection, and those without valid credentials in the name of the gateway.
 */
import { parseApiKey } from "../../../shared/protocol/api-key.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { RestRoute } from "../../../shared/protocol/rest/route.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import type { DenialReporter } from "../../../shared/sdk/access-log/denial-reporter.ts";
import { FleetRequests, type StatedRequest } from "../acts/fleet-requests.ts";
import { TooManyRequests } from "../callers/authentication.ts";
import type { CallerIdentity } from "../callers/identity.ts";
import type { CallerPool } from "../callers/pool.ts";

const DEADLINE_MS = 5_000;

interface RefusalParts extends Pick<ServiceContext, "clock" | "log"> {
  readonly denials: DenialReporter | undefined;
  readonly pool: CallerPool;
}

export class RefusedCalls {
  readonly #parts: RefusalParts;
  readonly #op: string;
  readonly #request: StatedRequest;

  constructor(parts: RefusalParts, { id }: RestRoute, request: StatedRequest) {
    this.#parts = parts;
    this.#op = `http.${id}`;
    this.#request = request;
  }

  /** Identifies a caller, and reports one without valid credentials. */
  async unknown<T>(
    header: string | undefined,
    identify: (header: string | undefined) => Promise<T>,
  ): Promise<T> {
    try {
      return await identify(header);
    } catch (error) {
      const isRefused = error instanceof FleetError && error.code === "UNAUTHORIZED";
      if (isRefused || error instanceof TooManyRequests) this.#note(credentialIn(header));
      throw error;
    }
  }

  /** Carries out the request of a known caller, and reports it if the bus refuses the credentials or the operation. */
  async watch<T>(identity: CallerIdentity, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof FleetError)) throw error;
      if (error.code === "UNAUTHORIZED") this.#note(identity.isApiKey === true ? identity.client : "token");
      // What a service refuses, it reports itself.
      else if (error.code === "FORBIDDEN" && error.details.bus === "permission")
        this.known(identity, "permission");
      throw error;
    }
  }

  /** The answer does not wait for the report. */
  known(identity: CallerIdentity, reason: "scope" | "permission"): void {
    const { pool, clock, log } = this.#parts;
    const denial = { at: new Date(clock.now()).toISOString(), op: this.#op, reason };
    const { signal } = new AbortController();
    pool
      .use(identity, (caller) =>
        new FleetRequests(caller, { clock, signal, request: this.#request }).ask(
          "denial_record",
          { denials: [denial] },
          { changes: true, deadlineMs: DEADLINE_MS },
        ),
      )
      .catch((error: unknown) =>
        log.warn({ error, op: this.#op, reason }, "a refusal is not in the access log"),
      );
  }

  #note(credential: string): void {
    const { address } = this.#request;
    const { denials } = this.#parts;
    denials?.note({
      op: this.#op,
      reason: "credentials",
      credential,
      ...(address !== "unknown" && { address }),
    });
  }
}

/** What can be said of credentials that are not valid, without repeating them. */
function credentialIn(header: string | undefined): string {
  const text = header?.replace(/^Bearer +/i, "");
  if (text === undefined || text === "") return "none";
  const id = parseApiKey(text)?.id;
  return id === undefined ? "token" : `key ${id}`;
}
