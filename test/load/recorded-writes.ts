// The writes of one create command. The records layer runs on a store that keeps a copy of every write, so the raw measurement
// repeats exactly these keys and values, even when the layout changes.

import {
  type Bytes,
  STAMP_BYTES,
  type Store,
  type TransactOptions,
  type Tx,
} from "../../shared/store/store.ts";
import { wrappedStore } from "../harness/stores/wrapped-store.ts";

export interface Write {
  readonly key: Buffer;
  /** Null: the key is removed. */
  readonly value: Buffer | null;
}

interface RecordingStore {
  readonly store: Store;
  /** Returns the writes of each transaction since the last call, in commit order. */
  take(): Write[][];
}

export function recordingStore(store: Store): RecordingStore {
  let taken: Write[][] = [];
  const transact = async <T>(options: TransactOptions, body: (tx: Tx) => Promise<T>) => {
    let writes: Write[] = [];
    const committed = await store.transact(options, (tx) => {
      writes = []; // an earlier attempt wrote nothing
      return body(recorded(tx, writes, taken.length));
    });
    taken.push(writes);
    return committed;
  };
  return {
    store: wrappedStore(store, transact),
    take() {
      const all = taken;
      taken = [];
      return all;
    },
  };
}

/** Forwards every call. The engine resolves counters and stamps at the commit only; the recording has values of the same size. */
function recorded(tx: Tx, writes: Write[], transaction: number): Tx {
  const stamp = Buffer.alloc(STAMP_BYTES);
  stamp.writeBigUInt64BE(BigInt(transaction));
  let stampedKeys = 0;
  const keep = (key: Bytes, value: Bytes | null) =>
    writes.push({ key: Buffer.from(key), value: value && Buffer.from(value) });
  return {
    attempt: tx.attempt,
    snapshot: tx.snapshot,
    get: (key) => tx.get(key),
    getMany: (keys) => tx.getMany(keys),
    getRange: (range, options) => tx.getRange(range, options),
    addReadConflict: (range) => tx.addReadConflict(range),
    approximateBytes: () => tx.approximateBytes(),
    set(key, value) {
      keep(key, value);
      tx.set(key, value);
    },
    clear(key) {
      keep(key, null);
      tx.clear(key);
    },
    clearRange() {
      throw new Error("a create that clears ranges cannot be repeated as single writes");
    },
    addI64(key, delta) {
      const value = Buffer.alloc(8);
      value.writeBigInt64LE(delta);
      keep(key, value);
      tx.addI64(key, delta);
    },
    byteMax(key, value) {
      keep(key, value);
      tx.byteMax(key, value);
    },
    setStampedKey(prefix, suffix, value) {
      const order = Buffer.alloc(2);
      order.writeUInt16BE(stampedKeys);
      stampedKeys += 1;
      keep(Buffer.concat([prefix, stamp, order, suffix]), value);
      tx.setStampedKey(prefix, suffix, value);
    },
    setStampedValue(key, prefix, suffix) {
      keep(key, Buffer.concat([prefix, stamp, suffix]));
      tx.setStampedValue(key, prefix, suffix);
    },
  };
}
