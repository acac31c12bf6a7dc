/**
 * The last successful state that a caller names: from there the task continues if the checkpoint itself is
 * corrupt.
 */
import { invalid } from "../../protocol/errors.ts";
import type { Tx } from "../../store/store.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { findInTask } from "./lookup.ts";

interface NamedState {
  readonly id: string;
  /** The field that names it. */
  readonly path: string;
  /** The position of the checkpoint that names it. */
  readonly seq: number;
}

/**
 * Throws INVALID unless the named checkpoint of the task is older and valid. From a younger one, the chain
 * of states would lead back to the corrupt checkpoint.
 */
export async function requireLastSuccessful(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  { id, path, seq }: NamedState,
): Promise<void> {
  const found = await findInTask(tx, keys, task, id);
  if (!found.sound) throw invalid(path, "a checkpoint that verifies", id);
  if (found.checkpoint.metadata.seq >= seq) {
    throw invalid(path, "a checkpoint that was committed before this one", id);
  }
}
