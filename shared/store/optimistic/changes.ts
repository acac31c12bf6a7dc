/**
 * Those who wait until a key's value differs from the one they saw. They are asked again after every commit that this process
 * notices, its own or another's: comparing the few values somebody waits for costs less than looking through what was written.
 */
import type { Bytes } from "../store.ts";
import { sameBytes } from "./order.ts";

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

  /** Until the returned function is called, {@link check} wakes the waiter once the value is another. */
  subscribe(waiter: Waiter): () => void {
    this.#waiting.add(waiter);
    return () => this.#waiting.delete(waiter);
  }

  /** Wakes those whose key has another value now. A value that went and came back wakes nobody. */
  check(current: (key: Bytes) => Bytes | undefined): void {
    for (const { key, lastSeen, wake } of this.#waiting) if (!sameBytes(current(key), lastSeen)) wake();
  }

  /** The store closes. */
  wakeAll(): void {
    for (const { wake } of this.#waiting) wake();
  }
}
