/**
 * Reads what depends on the checkpoints of a task: the points from which a recovery would continue, the open
 * handoff, a living agent.
 */
import type { Needs, RetentionRules } from "../../lifecycle/retention/rules.ts";
import { countedByRules } from "../../lifecycle/retention/rules.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Policies } from "../../protocol/policy.ts";
import type { Reader } from "../../store/store.ts";
import { verifyAncestry } from "../checkpoint/ancestry.ts";
import { fallbackOf, placeOf } from "../checkpoint/lookup.ts";
import { readSignedIds } from "../esign/esign-record.ts";
import { readOpenHandoff } from "../handoff/record.ts";
import { parseSeq, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { ownerAliveUntil } from "../recovery/leases.ts";

export interface NeedsContext {
  readonly rules: RetentionRules;
  readonly policies: Policies;
  readonly nowMs: number;
}

/** The positions of the newest checkpoints, the newest first. */
export async function readNewest(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  rules: RetentionRules,
): Promise<readonly number[]> {
  const { rows } = await reader.getRange(keys.orderRange(task), {
    limit: countedByRules(rules),
    reverse: true,
  });
  return rows.map(({ key }) => parseSeq(key));
}

/** Opens checkpoints, so it is not asked before one of them is due. */
export async function readNeeds(
  reader: Reader,
  task: TaskRecord,
  { rules, policies, nowMs }: NeedsContext,
): Promise<Needs> {
  const keys = tenantKeys(task.tenant);
  const ladder = await readLadder(reader, keys, task);
  const needed = new Map<string, "recovery" | "handoff" | "owned" | "signed">();
  const isEnded = task.work.kind === "ended" && task.work.as === "completed";
  const { last_successful_id, budget, latest_id } = task;
  const points = [...ladder, last_successful_id, budget?.avoid_id ?? null, budget?.checkpoint_id ?? null];
  if (!isEnded) for (const id of points) if (id !== null) needed.set(id, "recovery");
  const handoff = await readOpenHandoff(reader, keys, task);
  if (handoff !== null) needed.set(handoff.checkpoint_id, "handoff");
  if (latest_id !== null && (await ownerAliveUntil(reader, task, policies, nowMs)) > nowMs) {
    needed.set(latest_id, "owned");
  }
  for (const id of await readSignedIds(reader, keys, task.task_id)) needed.set(id, "signed");
  const newest = await readNewest(reader, keys, task.task_id, rules);
  return { newest, needed, finalId: ladder[0] ?? null };
}

/**
 * The newest checkpoint from which a recovery can continue, then the one before it, and the one before the
 * checkpoint that recoveries avoid. The search goes back along the last successful states, as a recovery does,
 * and on beyond a broken chain, because an operator may choose a checkpoint there.
 */
async function readLadder(
  reader: Reader,
  keys: TenantKeys,
  { tenant, task_id: task, latest_id, budget }: TaskRecord,
): Promise<readonly string[]> {
  const avoidId = budget?.avoid_id ?? null;
  const avoid = avoidId === null ? null : await placeOf(reader, keys, avoidId);
  /** The next point must stand before this position. */
  let before = Number.POSITIVE_INFINITY;
  const points: string[] = [];
  const seen = new Set<string>();
  let next = latest_id;
  while (next !== null && !seen.has(next) && seen.size < LIMITS.retention_ladder_max) {
    const id: string = next;
    seen.add(id);
    const place = await placeOf(reader, keys, id);
    if (place !== null && place.seq < before && (await verifyAncestry(reader, tenant, task, id)).ok) {
      points.push(id);
      const avoidSeq = avoid?.seq ?? 0;
      if (points.length === 1) before = place.seq;
      else if (place.seq >= avoidSeq && avoidSeq > 0) before = avoidSeq;
      else break;
    }
    next = await fallbackOf(reader, keys, id);
  }
  return points;
}
