/**
 * Waits for a change of a key's value. All waits are checked after every commit that this process notices,
 * its own or another's: comparing the few awaited values costs less than looking through the written ones.
 */

import { TIMER_MS_MAX } from "../../runtime/clock.ts";
import { createDeferred } from "../../runtime/deferred.ts";
import { sameBytes } from "../same-bytes.ts";
import type { Bytes } from "../store.ts";

type Current = (key: Bytes) => Bytes | undefined;

interface Waiter {
  readonly key: Bytes;
  readonly lastSeen: Bytes | undefined;
  readonly wake: () => void;
}

export class Changes {
  readonly #waiting = new Set<Waiter>();

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /**
   * Resolves when the value of `key` differs from `lastSeen`, at the latest after `pollMs` or when `signal`
   * aborts.
   */
  async wait(
    { key, lastSeen, current }: { key: Bytes; lastSeen: Bytes | undefined; current: Current },
    { pollMs, signal }: { pollMs: number; signal: AbortSignal },
  ): Promise<void> {
    const { promise: woken, resolve } = createDeferred<void>();
    const wake = () => resolve();
    const waiter = { key, lastSeen, wake };
    // Added before the value is read: a change between the two must wake.
    this.#waiting.add(waiter);
    const timer = setTimeout(wake, Math.min(pollMs, TIMER_MS_MAX));
    signal.addEventListener("abort", wake, { once: true });
    try {
      if (!signal.aborted && sameBytes(current(key), lastSeen)) await woken;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", wake);
      this.#waiting.delete(waiter);
    }
  }

  /** Ends each wait whose key has another value now. A value that changed and changed back ends none. */
  check(current: Current): void {
    for (const { key, lastSeen, wake } of this.#waiting) if (!sameBytes(current(key), lastSeen)) wake();
  }

  /** Ends all waits, when the store closes. */
  wakeAll(): void {
    for (const { wake } of this.#waiting) wake();
  }
}
