/**
 * Wakes those who wait for a key when a commit of this process wrote it. A hint only: the waiter also polls, because
 * stamped keys and commits that were lost sight of do not come through here.
 */

import type { Bytes, KeyRange } from "../store.ts";
import { NOT_COMMITTED, type Slab } from "./commit.ts";
import { inRange, keyBytes, keyText } from "./order.ts";
import { ByteReader, readWrite, skipReads } from "./request.ts";

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

  /** Reads the keys back from the encoded requests: nothing else of them is kept while they are being committed. */
  publish(slabs: readonly Slab[], outcomes: BigUint64Array): void {
    if (this.#waiting.size === 0) return;
    let index = 0;
    for (const { buffer, requests } of slabs) {
      const input = new ByteReader(buffer);
      for (let n = 0; n < requests; n++) {
        const end = input.offset + input.u32();
        if (outcomes[index++] !== NOT_COMMITTED) this.#publishRequest(input, end);
        input.offset = end;
      }
    }
  }

  /** Wakes everybody: the store closes. */
  wakeAll(): void {
    for (const text of this.#waiting.keys()) this.#wake(text);
  }

  #publishRequest(input: ByteReader, end: number): void {
    skipReads(input);
    while (input.offset < end) {
      const written = readWrite(input);
      if (written.end === undefined) this.#wake(keyText(written.key));
      else this.#wakeRange({ begin: written.key, end: written.end });
    }
  }

  #wakeRange(range: KeyRange): void {
    for (const text of this.#waiting.keys()) if (inRange(range, keyBytes(text))) this.#wake(text);
  }

  #wake(text: string): void {
    for (const wake of [...(this.#waiting.get(text) ?? [])]) wake();
  }
}
