/** The rows of a store: all of them, and a new store with given ones. */
import { KEY_SPACE } from "../../../shared/store/limits.ts";
import { openStore } from "../../../shared/store/open.ts";
import { type KeyValue, STORE_LIMITS, type Store } from "../../../shared/store/store.ts";

const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
const ROWS_OF_TRANSACTION = 10;

export async function dump(store: Store): Promise<KeyValue[]> {
  const limit = STORE_LIMITS.range_rows_max;
  const { rows, more } = await store.read(WRITE, (reader) => reader.getRange(KEY_SPACE, { limit }));
  if (more) throw new Error("the store has more rows than one read returns");
  return rows;
}

export async function writeRows(store: Store, rows: readonly KeyValue[]): Promise<void> {
  for (let at = 0; at < rows.length; at += ROWS_OF_TRANSACTION) {
    await store.transact(WRITE, async (tx) => {
      for (const { key, value } of rows.slice(at, at + ROWS_OF_TRANSACTION)) tx.set(key, value);
    });
  }
}

/** Makes the store hold these rows only. */
export async function restoreRows(store: Store, rows: readonly KeyValue[]): Promise<void> {
  await store.transact(WRITE, async (tx) => tx.clearRange(KEY_SPACE));
  await writeRows(store, rows);
}

/** A store in memory. */
export async function storeOf(rows: readonly KeyValue[]): Promise<Store> {
  const store = await openStore("memory:");
  await writeRows(store, rows);
  return store;
}
