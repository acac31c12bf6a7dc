/**
 * Restoration: a version that the store lost, or holds corrupt, is written again from a copy outside the store. Only the bytes whose hash the
 * order of the task names are written, so the copy cannot bring anything else into the store. The entry in the audit trail states the hash.
 */
import type { Sealed } from "../../integrity/seal.ts";
import { annotate } from "../../lifecycle/decision.ts";
import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import type { Tx } from "../../store/store.ts";
import { openRow, writeRow } from "../checkpoint/body.ts";
import { placeOf } from "../checkpoint/lookup.ts";
import { decodeOrder } from "../checkpoint/order.ts";
import { decode, encode } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { isNewest } from "../task/command-transaction.ts";
import { decodeHead } from "../task/head.ts";
import { writeTransitions } from "../task/transitions.ts";
import type { Finding, QuarantineMark } from "./quarantine.ts";

/** Copies of checkpoints outside the store, such as the file mirror. */
export interface CheckpointCopies {
  /** null: there is no readable copy. Never throws. The hash is computed from the bytes. */
  read(tenant: string, task: string, id: string): Promise<Sealed | null>;
}

export type Restored = CorruptCheckpoint & { readonly checkpoint_id: string; readonly version: number };

/** null: the copy is not the version that the order of the task names, so nothing was written. */
export async function restore(tx: Tx, finding: Finding, copy: Sealed): Promise<Restored | null> {
  const { tenant, task, corrupt, finder, nowMs, incarnation, traceparent } = finding;
  const id = corrupt.checkpoint_id;
  const keys = tenantKeys(tenant);
  const place = await placeOf(tx, keys, id);
  if (place?.task !== task) return null;
  const [order, row, headValue] = await tx.getMany([
    keys.order(task, place.seq),
    keys.checkpoint(task, id),
    keys.task(task),
  ]);
  const entry = decodeOrder(order);
  if (entry?.id !== id || entry.hash !== copy.hash || headValue === undefined) return null;
  const { version } = entry;
  // An earlier version of the checkpoint is corrupt, and copies hold the current one.
  if (corrupt.version !== null && corrupt.version !== version) return null;
  const restored = { checkpoint_id: id, version, reason: corrupt.reason };
  if ((await openRow(tx, keys, task, id, row, entry)).sound) return restored;
  const head = decodeHead(headValue);
  // An entry after a head that was rolled back would overwrite an existing one.
  if (!(await isNewest(tx, keys, task, head))) return null;
  const at = new Date(nowMs).toISOString();
  const markKey = keys.quarantine(task, id, version);
  const mark = await tx.get(markKey);
  writeRow(tx, keys, task, id, version, copy);
  if (mark !== undefined) tx.set(markKey, encode({ ...decode<QuarantineMark>(mark), lifted_at: at }));
  const { reason } = corrupt;
  const transitions = annotate(head, finder, nowMs, "restore", {
    checkpoint: { id, version, oldHash: null, newHash: null },
    facts: { reason, restored_hash: copy.hash },
    event: { type: "CHECKPOINT_RESTORED", data: { checkpointId: id, version, error: reason } },
  });
  const actor = { id: finder, type: "service" } as const;
  const author = { tenant, task, actor, commandId: null, nowMs, incarnation, traceparent };
  writeTransitions(tx, keys, author, head, transitions);
  return restored;
}
