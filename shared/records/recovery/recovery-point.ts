/**
 * The recovery point: where work can go on after a failure. From the newest checkpoint back along what each names as its last successful
 * state, the first that verifies together with all that it goes back to. Those that do not verify themselves are passed over and named;
 * where the chain itself is broken nothing is guessed, a person decides. Seed 000 §2.4.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../protocol/queries.ts";
import type { PointFailure } from "../../protocol/recovery-states.ts";
import type { Reader } from "../../store/store.ts";
import { verifyAncestry } from "../checkpoint/ancestry.ts";
import { fallbackOf, placeOf, readTask } from "../checkpoint/lookup.ts";
import { tenantKeys } from "../kv/keyspace.ts";

export type PointSearch =
  | {
      readonly found: true;
      readonly checkpoint: Checkpoint;
      /** Newer ones that do not verify. */
      readonly passed_over: readonly CorruptCheckpoint[];
    }
  | {
      readonly found: false;
      /** `no_checkpoint`: there is none that could be looked at. */
      readonly reason: PointFailure;
      readonly details: string;
      readonly passed_over: readonly CorruptCheckpoint[];
    };

export interface PointWish {
  /** This one and no other, whatever `before` says. */
  readonly checkpointId?: string | null;
  /** One from before this one, if there is any: what was tried in vain from the very first is tried from the newest again. */
  readonly before?: string | null;
}

export async function findRecoveryPoint(
  reader: Reader,
  tenant: string,
  task: string,
  { checkpointId = null, ...wish }: PointWish = {},
): Promise<PointSearch> {
  const before = checkpointId === null ? (wish.before ?? null) : null;
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
    // One whose place is lost is looked at too, and found corrupt.
    const place = before === null ? null : await placeOf(reader, keys, id);
    if (place === null || limit === null || place.seq < limit.seq) {
      const ancestry = await verifyAncestry(reader, tenant, task, id);
      if (ancestry.ok) return { found: true, checkpoint: ancestry.checkpoint, passed_over: passedOver };
      passedOver.push(ancestry.corrupt);
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
  return { found: false, reason: "no_checkpoint", details: "nothing was written yet", passed_over: [] };
}
