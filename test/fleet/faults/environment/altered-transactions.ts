/** Transactions with altered reads and writes. */
import tuple from "fdb-tuple";
import type { Bytes, Store, Tx } from "../../../../shared/store/store.ts";

/** Returns the altered `transact` of a store. */
export type AlteredTransact = (store: Store) => Store["transact"];

/** The part of the key space of a key: the second element of its tuple, or the third of a system key. */
export function subspaceOf(key: Bytes): unknown {
  const [, first, second] = tuple.unpack(Buffer.from(key)) as unknown[];
  return first === "s" ? second : first;
}

/** The same transaction with some of its functions replaced. */
export function altered(tx: Tx, changes: Partial<Tx>): Tx {
  return new Proxy(tx, {
    get(target, name) {
      if (Object.hasOwn(changes, name)) return Reflect.get(changes, name);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** The replaced read functions of {@link altered}. */
export function alteredReads(
  tx: Tx,
  alter: (key: Bytes, value: Bytes | undefined) => Bytes | undefined,
): Partial<Tx> {
  return {
    get: async (key) => alter(key, await tx.get(key)),
    getMany: async (keys) => (await tx.getMany(keys)).map((value, i) => alter(keys[i]!, value)),
  };
}
