/**
 * `Idempotency-Key` as the id of a command. A UUIDv7 is the id itself. The fleet tells repetitions by the record of
 * the command, which it keeps for two days, and refuses an older id. So an id has a time, and any other key gets one:
 * the beginning of the day (UTC) of its first use. The id follows from caller, key and day alone, so every gateway
 * makes the same one; a gateway that has seen the key keeps its day past midnight.
 */
import { createHash } from "node:crypto";
import { invalid } from "../../../shared/protocol/errors.ts";
import { isCheckpointId, normalizeCheckpointId } from "../../../shared/protocol/ids.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";

const DAY_MS = 86_400_000;
const KEYS_MAX = 10_000;
const FORM = /^[\x21-\x7e]{1,255}$/;

export class IdempotencyKeys {
  readonly #clock: Clock;
  readonly #days = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** undefined: the request has no key. Throws INVALID. */
  commandId(
    header: string | null,
    { tenant, name }: { readonly tenant: string; readonly name: string },
  ): string | undefined {
    if (header === null) return undefined;
    // The draft of the IETF writes it as a quoted string.
    const key = header.trim().replace(/^"(.*)"$/, "$1");
    const id = normalizeCheckpointId(key);
    if (isCheckpointId(id)) return id;
    if (!FORM.test(key)) throw invalid("Idempotency-Key", "a UUIDv7, or 1 to 255 visible characters", header);
    const owned = JSON.stringify([tenant, name, key]);
    return idOf(owned, this.#dayOf(owned));
  }

  #dayOf(owned: string): number {
    const now = this.#clock.now();
    const today = now - (now % DAY_MS);
    const known = this.#days.get(owned);
    if (known !== undefined && today - known <= DAY_MS) return known;
    if (this.#days.size >= KEYS_MAX) this.#days.delete(this.#days.keys().next().value as string);
    this.#days.set(owned, today);
    return today;
  }
}

/** A UUIDv7 of this time, with bits of a hash in the place of random ones. */
function idOf(owned: string, time: number): string {
  const hash = createHash("sha256").update(`${time} ${owned}`).digest("hex");
  const head = time.toString(16).padStart(12, "0");
  const variant = ((Number.parseInt(hash[3]!, 16) & 3) | 8).toString(16);
  return `${head.slice(0, 8)}-${head.slice(8)}-7${hash.slice(0, 3)}-${variant}${hash.slice(4, 7)}-${hash.slice(7, 19)}`;
}
