/**
 * The recovery point: the checkpoint from which the work can continue after a failure. The search goes from
 * the newest checkpoint back along the last successful states, and takes the first sound one. Corrupt
 * checkpoints are passed over and named. If an ancestor of a valid one is corrupt, the search stops instead
 * of guessing: an operator must decide. Seed 000 §2.4.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import type { PointFailure } from "../../protocol/recovery-states.ts";
import type { Reader } from "../../store/store.ts";
import { verifyAncestry } from "../checkpoint/ancestry.ts";
import { fallbackOf, placeOf, readTask } from "../checkpoint/lookup.ts";
import { tenantKeys } from "../kv/keyspace.ts";

export type PointSearch =
  | {
      readonly found: true;
      readonly checkpoint: Checkpoint;
      /** Newer checkpoints that are corrupt. */
      readonly passed_over: readonly CorruptCheckpoint[];
    }
  | {
      readonly found: false;
      /** `no_checkpoint`: the task has no checkpoint that could be verified. */
      readonly reason: PointFailure;
      readonly details: string;
      readonly passed_over: readonly CorruptCheckpoint[];
    };

export interface PointRequest {
  /** This checkpoint and no other; `before` is ignored. */
  readonly checkpointId?: string | null;
  /** A checkpoint before this one, if there is any; otherwise the newest sound one again. */
  readonly before?: string | null;
}

export async function findRecoveryPoint(
  reader: Reader,
  tenant: string,
  task: string,
  { checkpointId = null, ...request }: PointRequest = {},
): Promise<PointSearch> {
  const before = checkpointId === null ? (request.before ?? null) : null;
  const keys = tenantKeys(tenant);
  const head = await readTask(reader, tenant, task);
  const named = checkpointId ?? before;
  const limit = named === null ? null : await placeOf(reader, keys, named);
  if (named !== null && limit?.task !== task) {
    const details = `the task has no checkpoint ${named}`;
    return { found: false, reason: "no_checkpoint", details, passed_over: [] };
  }
  const passedOver: CorruptCheckpoint[] = [];
  const seen = new Set<string>();
  let next = checkpointId ?? head?.latest_id ?? null;
  while (next !== null && !seen.has(next)) {
    const id: string = next;
    seen.add(id);
    // A checkpoint whose location is lost is verified too, and found corrupt.
    const place = before === null ? null : await placeOf(reader, keys, id);
    if (place === null || limit === null || place.seq < limit.seq) {
      const ancestry = await verifyAncestry(reader, tenant, task, id);
      if (ancestry.ok) return { found: true, checkpoint: ancestry.checkpoint, passed_over: passedOver };
      if (ancestry.corrupt === null && checkpointId !== null) {
        const details = `checkpoint ${id} was removed by retention`;
        return { found: false, reason: "no_checkpoint", details, passed_over: [] };
      }
      if (ancestry.corrupt !== null) passedOver.push(ancestry.corrupt);
      if (ancestry.reason === "chain_broken" || checkpointId !== null) {
        const details = `checkpoint ${ancestry.at} does not verify: ${ancestry.details}`;
        return { found: false, reason: "chain_broken", details, passed_over: passedOver };
      }
    }
    next = await fallbackOf(reader, keys, id);
  }
  if (passedOver.length > 0) {
    const details = "no sound checkpoint can be reached from the newest one";
    return { found: false, reason: "chain_broken", details, passed_over: passedOver };
  }
  if (before !== null) return findRecoveryPoint(reader, tenant, task);
  const details =
    seen.size === 0 ? "nothing was written yet" : "retention removed all checkpoints of the task";
  return { found: false, reason: "no_checkpoint", details, passed_over: [] };
}
