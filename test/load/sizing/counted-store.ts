// A store that counts its transactions by their labels, and the rows of a store by their families.

import tuple from "fdb-tuple";
import { KEY_SPACE } from "../../../shared/store/limits.ts";
import {
  type KeyRange,
  type KeyValue,
  STORE_LIMITS,
  type Store,
  type Tx,
} from "../../../shared/store/store.ts";

export interface CountedTransactions {
  /** Transactions that wrote nothing. */
  reads: number;
  writes: number;
  /** Keys that the writes set, changed or cleared. */
  keys: number;
  /** The size of the largest one as the store counts it: keys and values written, and keys read. */
  bytes_max: number;
}

export type Labels = Map<string, CountedTransactions>;

/** Counts every operation of `store` that succeeds in `counted`. */
export function countedStore(store: Store, counted: Labels): Store {
  const sumOf = (label: string): CountedTransactions => {
    const sum = counted.get(label) ?? { reads: 0, writes: 0, keys: 0, bytes_max: 0 };
    counted.set(label, sum);
    return sum;
  };
  return {
    name: store.name,
    async transact(options, body) {
      // Of the last attempt.
      let made = { keys: 0, bytes: 0 };
      const result = await store.transact(options, async (tx) => {
        const counting = new CountingTx(tx);
        const value = await body(counting);
        made = { keys: counting.keys, bytes: tx.approximateBytes() };
        return value;
      });
      const sum = sumOf(options.label);
      sum[result.stamp === null ? "reads" : "writes"] += 1;
      sum.keys += made.keys;
      sum.bytes_max = Math.max(sum.bytes_max, made.bytes);
      return result;
    },
    async read(options, body) {
      const value = await store.read(options, body);
      sumOf(options.label).reads += 1;
      return value;
    },
    changed: (key, lastSeen, options) => store.changed(key, lastSeen, options),
    health: (options) => store.health(options),
    close: (options) => store.close(options),
  };
}

/** Counts the keys that a transaction writes; everything is done by the real one. */
class CountingTx implements Tx {
  keys = 0;
  readonly #tx: Tx;

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  get attempt(): number {
    return this.#tx.attempt;
  }
  get snapshot(): Tx["snapshot"] {
    return this.#tx.snapshot;
  }
  get: Tx["get"] = (key) => this.#tx.get(key);
  getMany: Tx["getMany"] = (keys) => this.#tx.getMany(keys);
  getRange: Tx["getRange"] = (range, options) => this.#tx.getRange(range, options);
  addReadConflict: Tx["addReadConflict"] = (range) => this.#tx.addReadConflict(range);
  approximateBytes: Tx["approximateBytes"] = () => this.#tx.approximateBytes();
  set: Tx["set"] = (...a) => this.#one(() => this.#tx.set(...a));
  clear: Tx["clear"] = (...a) => this.#one(() => this.#tx.clear(...a));
  clearRange: Tx["clearRange"] = (...a) => this.#one(() => this.#tx.clearRange(...a));
  addI64: Tx["addI64"] = (...a) => this.#one(() => this.#tx.addI64(...a));
  byteMax: Tx["byteMax"] = (...a) => this.#one(() => this.#tx.byteMax(...a));
  setStampedKey: Tx["setStampedKey"] = (...a) => this.#one(() => this.#tx.setStampedKey(...a));
  setStampedValue: Tx["setStampedValue"] = (...a) => this.#one(() => this.#tx.setStampedValue(...a));

  #one(write: () => void): void {
    write();
    this.keys += 1;
  }
}

export interface Stored {
  readonly rows: number;
  /** Keys and values. */
  readonly bytes: number;
}

export type Families = ReadonlyMap<string, Stored>;

const READING = { label: "count_rows", deadlineMs: 10_000 } as const;

/** All rows of a store, by the name of their subspace in the key layout. */
export async function storedFamilies(store: Store): Promise<Families> {
  const families = new Map<string, Stored>();
  for await (const { key, value } of allRows(store)) {
    const family = familyOf(key);
    const { rows, bytes } = families.get(family) ?? { rows: 0, bytes: 0 };
    families.set(family, { rows: rows + 1, bytes: bytes + key.length + value.length });
  }
  return families;
}

async function* allRows(store: Store): AsyncGenerator<KeyValue> {
  let range: KeyRange = KEY_SPACE;
  for (;;) {
    const { rows, more } = await store.read(READING, (reader) =>
      reader.getRange(range, { limit: STORE_LIMITS.range_rows_max }),
    );
    yield* rows;
    const last = rows.at(-1);
    if (!more || last === undefined) return;
    range = { begin: Buffer.concat([last.key, Buffer.of(0)]), end: KEY_SPACE.end };
  }
}

const familyOf = (key: Uint8Array): string => placeOf(key).family;

/**
 * The layout has one root, then `s` for the system, or `t` and a tenant, or neither for the default tenant. `next`: the element after the
 * family, which is the task in those that are of tasks.
 */
export function placeOf(key: Uint8Array): { readonly family: string; readonly next: unknown } {
  const elements = tuple.unpack(Buffer.from(key)) as unknown[];
  const at = { s: 2, t: 3 }[String(elements[1])] ?? 1;
  return { family: String(elements[at]), next: elements[at + 1] };
}
