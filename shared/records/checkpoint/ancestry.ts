/**
 * Verifies that a checkpoint is sound: its own hash and the hashes of its ancestors, up to removed ones. A parent always precedes
 * its child in the task's order, so one pass over the order, newest first, meets every child before its
 * parents. The pass is bounded: ancestors beyond the limit are verified when they are read.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Reader } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { findInTask, findMany } from "./lookup.ts";
import { readOrder } from "./order.ts";

/** A valid checkpoint, whose ancestors are not verified yet. */
export interface Own {
  readonly ok: true;
  readonly checkpoint: Checkpoint;
  /** The size of its canonical form. */
  readonly bytes: number;
}

export interface Unsound {
  readonly ok: false;
  /** The checkpoint itself, or one of its ancestors. */
  readonly reason: "hash_broken" | "chain_broken";
  readonly at: string;
  /** A description of the corruption. */
  readonly details: string;
  /** null: the checkpoint was removed. */
  readonly corrupt: CorruptCheckpoint | null;
}

export type Ancestry =
  | {
      readonly ok: true;
      /** The requested checkpoint. */
      readonly checkpoint: Checkpoint;
      /** The number of verified checkpoints, including this one. */
      readonly verified: number;
    }
  | Unsound;

/**
 * The checkpoints read at once: fewer if those before them were large, so that they do not fill the memory.
 */
const SLICE = 32;
const SLICE_BYTES = 2_000_000;

const sliceAfter = (verified: number, bytes: number): number =>
  Math.max(1, Math.min(SLICE, Math.floor((SLICE_BYTES * verified) / Math.max(1, bytes))));

export async function verifyAncestry(
  reader: Reader,
  tenant: string,
  task: string,
  id: string,
): Promise<Ancestry> {
  const own = await verifyOwn(reader, tenant, task, id);
  return own.ok ? verifyAncestors(reader, tenant, task, own) : own;
}

export async function verifyOwn(
  reader: Reader,
  tenant: string,
  task: string,
  id: string,
): Promise<Own | Unsound> {
  const found = await findInTask(reader, tenantKeys(tenant), task, id);
  if (found.sound) return { ok: true, checkpoint: found.checkpoint, bytes: found.bytes };
  if (found.removed === undefined) return broken("hash_broken", id, found.corrupt);
  return { ok: false, reason: "hash_broken", at: id, details: "retention removed it", corrupt: null };
}

export async function verifyAncestors(
  reader: Reader,
  tenant: string,
  task: string,
  own: Own,
): Promise<Ancestry> {
  const keys = tenantKeys(tenant);
  const { checkpoint } = own;
  const wanted = new Set(checkpoint.metadata.parent_ids);
  let [verified, bytes, to] = [1, own.bytes, checkpoint.metadata.seq - 1];
  while (wanted.size > 0 && to >= 1) {
    const limit = sliceAfter(verified, bytes);
    const places = await readOrder(reader, keys, task, { from: 1, to, limit, reverse: true });
    const found = await findMany(reader, keys, task, places);
    for (const [i, one] of found.entries()) {
      const at = places[i]?.entry?.id ?? (one.sound ? null : (one.removed?.checkpoint_id ?? null));
      // A lost entry may be an ancestor's; if it is, that ancestor stays in `wanted`.
      if (at === null || !wanted.delete(at)) continue;
      // It was sound when it was removed, and its tombstone stands for it and its ancestors.
      if (!one.sound && one.removed !== undefined) continue;
      if (!one.sound) return broken("chain_broken", at, one.corrupt);
      for (const parent of one.checkpoint.metadata.parent_ids) wanted.add(parent);
      verified += 1;
      bytes += one.bytes;
    }
    if (verified >= LIMITS.chain_count_max || bytes >= LIMITS.chain_bytes_max) {
      return { ok: true, checkpoint, verified };
    }
    to -= places.length;
  }
  const [missing] = wanted;
  if (missing === undefined) return { ok: true, checkpoint, verified };
  const reason = "its entry in the order of the task is lost";
  return broken("chain_broken", missing, { checkpoint_id: missing, version: null, reason });
}

function broken(reason: "hash_broken" | "chain_broken", at: string, corrupt: CorruptCheckpoint): Unsound {
  return { ok: false, reason, at, details: corrupt.reason, corrupt };
}
