/**
 * The store in memory, for tests: the full contract, including conflicts, durable within the process, and the
 * same code as the LMDB driver down to the commit. Only the engine differs: keys are in a sorted array and
 * values have a history, so that a snapshot reads the state of its moment.
 */
import { type Clock, systemClock } from "../../runtime/clock.ts";
import { type BatchResult, commitSlabs, type Slab, type Writable } from "../optimistic/commit.ts";
import type { Engine, Snapshot } from "../optimistic/engine.ts";
import { keyBytes, keyText } from "../optimistic/keys.ts";
import { OptimisticStore } from "../optimistic/store.ts";
import type { Bytes, KeyRange, KeyValue, Store } from "../store.ts";

export interface MemoryOptions {
  readonly clock?: Clock;
}

/** Opens an empty store; its content ends with the process. */
export async function openMemory({ clock = systemClock }: MemoryOptions = {}): Promise<Store> {
  return new OptimisticStore(new MemoryEngine(clock), clock);
}

interface Version {
  readonly batch: number;
  readonly value: Bytes | undefined;
}

/** The state of the store. What it commits is visible at once. */
export class MemoryEngine implements Engine, Writable {
  readonly name = "memory";
  readonly paceMs = 0;
  readonly #clock: Clock;
  /** Sorted. A key stays as long as a snapshot may see it. */
  readonly #keys: string[] = [];
  readonly #versions = new Map<string, Version[]>();
  readonly #open = new Map<Snapshot, number>();
  /** The count of batches; no snapshot is taken in the middle of one. */
  #batch = 0;
  #sequence = 0n;
  /** The batch of the oldest open snapshot; fixed during a batch, in which no snapshot is taken. */
  #oldest = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  snapshot(): Snapshot {
    const batch = this.#batch;
    const snapshot: Snapshot = {
      sequence: this.#sequence,
      openedAt: this.#clock.monotonic(),
      get: (key) => copyOf(this.#valueAt(keyText(key), batch)),
      rows: (range, limit, reverse) => this.#rowsAt(range, { limit, reverse, batch }),
      release: () => this.#open.delete(snapshot),
    };
    this.#open.set(snapshot, batch);
    return snapshot;
  }

  async commit(slabs: Slab[]): Promise<BatchResult> {
    return this.apply(slabs);
  }

  apply(slabs: readonly Slab[]): BatchResult {
    this.#batch += 1;
    this.#oldest = Math.min(this.#batch, ...this.#open.values());
    const result = commitSlabs(this, slabs, this.#sequence);
    this.#sequence = result.sequence;
    return result;
  }

  async close(): Promise<void> {
    this.#keys.length = 0;
    this.#versions.clear();
  }

  get(key: Bytes): Bytes | undefined {
    return this.#valueAt(keyText(key), this.#batch);
  }

  rows(range: KeyRange, limit: number): KeyValue[] {
    return this.#rowsAt(range, { limit, reverse: false, batch: this.#batch });
  }

  set(key: Bytes, value: Bytes): void {
    this.#write(keyText(key), Uint8Array.from(value));
  }

  clear(key: Bytes): void {
    const text = keyText(key);
    if (this.#versions.has(text)) this.#write(text, undefined);
  }

  clearRange(range: KeyRange): void {
    const from = this.#indexOf(keyText(range.begin));
    for (const text of this.#keys.slice(from, this.#indexOf(keyText(range.end)))) {
      this.#write(text, undefined);
    }
  }

  #write(text: string, value: Bytes | undefined): void {
    const before = this.#versions.get(text) ?? [];
    // Keeps the newest version that the oldest snapshot sees, and all later ones.
    const needed = before.filter((version, index) => {
      const next = before[index + 1]?.batch ?? this.#batch;
      return version.batch < this.#batch && next > this.#oldest;
    });
    if (before.length === 0) this.#keys.splice(this.#indexOf(text), 0, text);
    if (value === undefined && needed.length === 0) {
      this.#versions.delete(text);
      this.#keys.splice(this.#indexOf(text), 1);
    } else {
      this.#versions.set(text, [...needed, { batch: this.#batch, value }]);
    }
  }

  #valueAt(text: string, batch: number): Bytes | undefined {
    return this.#versions.get(text)?.findLast((version) => version.batch <= batch)?.value;
  }

  #rowsAt(range: KeyRange, at: { limit: number; reverse: boolean; batch: number }): KeyValue[] {
    const begin = this.#indexOf(keyText(range.begin));
    const end = this.#indexOf(keyText(range.end));
    const rows: KeyValue[] = [];
    for (let n = 0; n < end - begin && rows.length < at.limit; n++) {
      const text = this.#keys[at.reverse ? end - 1 - n : begin + n]!;
      const value = this.#valueAt(text, at.batch);
      if (value !== undefined) rows.push({ key: keyBytes(text), value: Uint8Array.from(value) });
    }
    return rows;
  }

  /** The index of the first key that is not before `text`. */
  #indexOf(text: string): number {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#keys[middle]! < text) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function copyOf(value: Bytes | undefined): Bytes | undefined {
  return value && Uint8Array.from(value);
}
