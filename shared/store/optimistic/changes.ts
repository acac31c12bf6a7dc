/**
 * Wakes those who wait for a key when a commit of this process wrote it. A hint only: the waiter also polls, because
 * stamped keys and commits that were lost sight of do not come through here.
 */

import type { Bytes, KeyRange } from "../store.ts";
import { NOT_COMMITTED, type Slab } from "./commit.ts";
import { inRange, keyBytes, keyText } from "./order.ts";
import { ByteReader, type Passed, passWrite, rangeAt, skipReads } from "./request.ts";

export class Changes {
  readonly #waiting = new Map<string, Set<() => void>>();
  /** The keys of `waiting` as bytes, by length: most keys that are written have a length that nobody waits for. */
  readonly #byLength = new Map<number, Map<string, Buffer>>();

  /** Calls `wake` at every later change of `key`, until the returned function is called. */
  subscribe(key: Bytes, wake: () => void): () => void {
    const text = keyText(key);
    const waiting = this.#waiting.get(text) ?? new Set();
    this.#waiting.set(text, waiting.add(wake));
    this.#lengthOf(text).set(text, keyBytes(text));
    return () => {
      waiting.delete(wake);
      if (waiting.size > 0 || this.#waiting.get(text) !== waiting) return;
      this.#waiting.delete(text);
      this.#lengthOf(text).delete(text);
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
      const written = passWrite(input);
      if (written.isRange) this.#wakeRange(rangeAt(input, written));
      else this.#wakeKey(input, written);
    }
  }

  #wakeKey(input: ByteReader, { keyAt, keyLength }: Passed): void {
    const candidates = this.#byLength.get(keyLength);
    if (candidates === undefined) return;
    for (const [text, key] of candidates) if (input.holds(keyAt, key)) this.#wake(text);
  }

  #lengthOf(text: string): Map<string, Buffer> {
    const same = this.#byLength.get(text.length) ?? new Map<string, Buffer>();
    this.#byLength.set(text.length, same);
    return same;
  }

  #wakeRange(range: KeyRange): void {
    for (const text of this.#waiting.keys()) if (inRange(range, keyBytes(text))) this.#wake(text);
  }

  #wake(text: string): void {
    for (const wake of [...(this.#waiting.get(text) ?? [])]) wake();
  }
}
