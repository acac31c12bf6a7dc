/**
 * Wakes those who wait for a key when a commit of this process wrote it. A hint only: the waiter also polls, because
 * stamped keys and commits that were lost sight of do not come through here.
 */

import type { Bytes } from "../store.ts";
import { inRange, keyBytes, keyText } from "./order.ts";
import type { CommitRequest } from "./request.ts";

export class Changes {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Calls `wake` at every later change of `key`, until the returned function is called. */
  subscribe(key: Bytes, wake: () => void): () => void {
    const text = keyText(key);
    const waiting = this.#waiting.get(text) ?? new Set();
    this.#waiting.set(text, waiting.add(wake));
    return () => {
      waiting.delete(wake);
      if (waiting.size === 0 && this.#waiting.get(text) === waiting) this.#waiting.delete(text);
    };
  }

  publish(requests: readonly CommitRequest[]): void {
    if (this.#waiting.size === 0) return;
    for (const { overlay } of requests) {
      for (const text of overlay.writes.keys()) this.#wake(text);
      for (const range of overlay.clearedRanges) {
        for (const text of this.#waiting.keys()) if (inRange(range, keyBytes(text))) this.#wake(text);
      }
    }
  }

  /** Wakes everybody: the store closes. */
  wakeAll(): void {
    for (const text of this.#waiting.keys()) this.#wake(text);
  }

  #wake(text: string): void {
    for (const wake of [...(this.#waiting.get(text) ?? [])]) wake();
  }
}
