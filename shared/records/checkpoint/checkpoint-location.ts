/** The location of a checkpoint: its task and its seq. It is found by the id of the checkpoint alone. */
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
