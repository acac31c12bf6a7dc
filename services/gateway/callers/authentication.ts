/** The caller of a request, by its header `Authorization: Bearer …` with an API key or a token of an issuer. Failed attempts of one address are limited. */
import { parseApiKey } from "../../../shared/protocol/api-key.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { ApiKeyIdentities } from "./api-key-identity.ts";
import { Buckets } from "./bucket.ts";
import type { CallerIdentity } from "./identity.ts";
import type { TokenIdentities } from "./token-identity.ts";

const FAILURES = { perSecond: 5, burst: 50 } as const;
const JWT_PARTS = 3;
const BEARER = /^Bearer +([\x21-\x7e]{1,8192})$/i;

/** The caller of a request that exceeded a limit, in milliseconds until the next attempt. */
export class TooManyRequests extends FleetError {
  constructor(message: string, retryAfterMs: number) {
    super("UNAVAILABLE", message, { retryAfterMs });
  }
}

export class Authentication {
  readonly #keys: ApiKeyIdentities;
  readonly #tokens: TokenIdentities | undefined;
  readonly #clock: Clock;
  readonly #failures: Buckets;

  /** `tokens`: undefined if the gateway has no issuers. */
  constructor(keys: ApiKeyIdentities, tokens: TokenIdentities | undefined, clock: Clock) {
    this.#keys = keys;
    this.#tokens = tokens;
    this.#clock = clock;
    this.#failures = new Buckets(FAILURES.perSecond, FAILURES.burst, clock);
  }

  /** Whether a caller that was admitted before still is: its key may be revoked or at its end. */
  async isAdmitted(header: string | undefined): Promise<boolean> {
    try {
      const { expiresAt } = await this.#identityOf(header);
      return expiresAt === null || expiresAt > this.#clock.now();
    } catch {
      return false;
    }
  }

  /** Throws UNAUTHORIZED, or TooManyRequests after many failures of the address. */
  async identify(header: string | undefined, address: string): Promise<CallerIdentity> {
    try {
      return await this.#identityOf(header);
    } catch (error) {
      if (!(error instanceof FleetError) || error.code !== "UNAUTHORIZED") throw error;
      const waitMs = this.#failures.take(address);
      if (waitMs > 0) throw new TooManyRequests("too many requests without valid credentials", waitMs);
      throw error;
    }
  }

  async #identityOf(header: string | undefined): Promise<CallerIdentity> {
    const [, text = ""] = BEARER.exec(header ?? "") ?? [];
    const key = parseApiKey(text);
    if (key !== undefined) return this.#keys.identify(key);
    if (this.#tokens !== undefined && text.split(".").length === JWT_PARTS)
      return this.#tokens.identify(text);
    throw new FleetError(
      "UNAUTHORIZED",
      "the request needs `Authorization: Bearer` with an API key or a token",
    );
  }
}
