/** Where a checkpoint stands: the task it belongs to and its position there. Found by its id alone. */
import type { Bytes, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked } from "../kv/codec.ts";
import type { TenantKeys } from "../kv/keyspace.ts";

export interface Place {
  readonly task: string;
  readonly seq: number;
}

export function writePlace(tx: Tx, keys: TenantKeys, id: string, place: Place): void {
  tx.set(keys.id(id), encodeChecked([place.task, place.seq]));
}

export function decodePlace(value: Bytes): Place {
  const [task, seq] = decodeChecked<[string, number]>(value);
  return { task, seq };
}
