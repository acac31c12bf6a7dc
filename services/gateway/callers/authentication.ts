/** The caller of a request, by its header `Authorization: Bearer …`. Failed attempts of one address are limited. */
import { parseApiKey } from "../../../shared/protocol/api-key.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { ApiKeyIdentities } from "./api-key-identity.ts";
import { Buckets } from "./bucket.ts";
import type { CallerIdentity } from "./identity.ts";

const FAILURES = { perSecond: 5, burst: 50 } as const;
const BEARER = /^Bearer +([\x21-\x7e]{1,8192})$/i;

/** The caller of a request that exceeded a limit, in milliseconds until the next attempt. */
export class TooManyRequests extends FleetError {
  constructor(message: string, retryAfterMs: number) {
    super("UNAVAILABLE", message, { retryAfterMs });
  }
}

export class Authentication {
  readonly #keys: ApiKeyIdentities;
  readonly #clock: Clock;
  readonly #failures: Buckets;

  constructor(keys: ApiKeyIdentities, clock: Clock) {
    this.#keys = keys;
    this.#clock = clock;
    this.#failures = new Buckets(FAILURES.perSecond, FAILURES.burst, clock);
  }

  /** Whether a caller that was admitted before still is: its key may be revoked or at its end. */
  isAdmitted(header: string | undefined): boolean {
    try {
      const { expiresAt } = this.#identityOf(header);
      return expiresAt === null || expiresAt > this.#clock.now();
    } catch {
      return false;
    }
  }

  #identityOf(header: string | undefined): CallerIdentity {
    const [, text = ""] = BEARER.exec(header ?? "") ?? [];
    const key = parseApiKey(text);
    if (key !== undefined) return this.#keys.identify(key);
    throw new FleetError("UNAUTHORIZED", "the request needs `Authorization: Bearer` with an API key");
  }

  /** Throws UNAUTHORIZED, or TooManyRequests after many failures of the address. */
  identify(header: string | undefined, address: string): CallerIdentity {
    try {
      return this.#identityOf(header);
    } catch (error) {
      const waitMs = this.#failures.take(address);
      if (waitMs > 0) throw new TooManyRequests("too many requests without valid credentials", waitMs);
      throw error;
    }
  }
}
