/** Transactions of which some reads and writes are others than their authors think. */
import tuple from "fdb-tuple";
import type { Bytes, Store, Tx } from "../../../../shared/store/store.ts";

/** From a store to how it makes its transactions instead. */
export type Break = (store: Store) => Store["transact"];

/** The part of the key space that a key lies in: the second element of its tuple, of the system's keys the third. */
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

export function reading(
  tx: Tx,
  see: (key: Bytes, value: Bytes | undefined) => Bytes | undefined,
): Partial<Tx> {
  return {
    get: async (key) => see(key, await tx.get(key)),
    getMany: async (keys) => (await tx.getMany(keys)).map((value, i) => see(keys[i]!, value)),
  };
}
