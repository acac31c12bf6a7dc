/** Token buckets, one for each name: a burst at once, and then a steady rate. */
import type { Clock } from "../../../shared/runtime/clock.ts";

/** Names beyond this number are forgotten, the oldest first; a forgotten name has a full bucket. */
const NAMES_MAX = 10_000;

interface Bucket {
  tokens: number;
  at: number;
}

export class Buckets {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #clock: Clock;
  readonly #buckets = new Map<string, Bucket>();

  constructor(perSecond: number, burst: number, clock: Clock) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#clock = clock;
  }

  /** Takes a token; returns the milliseconds until there is one, 0 if it was taken. */
  take(name: string): number {
    const bucket = this.#filled(name);
    if (bucket.tokens < 1) return Math.ceil(((1 - bucket.tokens) / this.#perSecond) * 1_000);
    bucket.tokens -= 1;
    return 0;
  }

  isEmpty(name: string): boolean {
    return this.#filled(name).tokens < 1;
  }

  #filled(name: string): Bucket {
    const now = this.#clock.monotonic();
    let bucket = this.#buckets.get(name);
    if (bucket === undefined) {
      if (this.#buckets.size >= NAMES_MAX) this.#buckets.delete(this.#buckets.keys().next().value as string);
      bucket = { tokens: this.#burst, at: now };
      this.#buckets.set(name, bucket);
    }
    bucket.tokens = Math.min(this.#burst, bucket.tokens + ((now - bucket.at) / 1_000) * this.#perSecond);
    bucket.at = now;
    return bucket;
  }
}
