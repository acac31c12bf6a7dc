/** A page of the checkpoints that retention, or a prune with given values, would remove now, by task. */
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { PrunableCheckpoint, PrunablePage } from "../../protocol/retention-queries.ts";
import type { Reader } from "../../store/store.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { after, parseTask, tenantKeys } from "../kv/keyspace.ts";
import { decodeSoundHead } from "../task/head.ts";
import { isSpentBudget, newBudget, type PlanContext, type PlannedRemoval, planTask } from "./plan.ts";

/** The number of heads read at once. */
const SLICE = 100;

/** A page may be shorter than `limit`, or empty, while others follow. */
export async function listPrunable(
  reader: Reader,
  tenant: string,
  { task_id: only, older_than_days: days, keep, limit, cursor }: QueryParams<"prunable">,
  { policies, nowMs }: Pick<PlanContext, "policies" | "nowMs">,
): Promise<PrunablePage> {
  const keys = tenantKeys(tenant);
  const kind = `prunable/${tenant}/${only ?? ""}/${days ?? ""}/${keep ?? ""}`;
  const rules = { ...(days !== undefined && { days }), ...(keep !== undefined && { keep }) };
  const budget = { ...newBudget(), removals: limit, bytes: LIMITS.prunable_read_bytes_max };
  let { task, from } = placeIn(kind, cursor);
  const checkpoints: PrunableCheckpoint[] = [];
  const page = (): PrunablePage => ({ checkpoints, cursor: sealCursor(kind, `${from}/${task}`) });
  const all = only === undefined ? keys.tasks() : { begin: keys.task(only), end: after(keys.task(only)) };
  for (;;) {
    // A task that is partly listed comes first again.
    const begin = task === "" ? all.begin : from > 1 ? keys.task(task) : after(keys.task(task));
    const { rows, more } = await reader.getRange({ begin, end: all.end }, { limit: SLICE });
    budget.rows -= rows.length;
    for (const [i, { key, value }] of rows.entries()) {
      const head = decodeSoundHead(value);
      const at = parseTask(key) === task ? from : 1;
      task = parseTask(key);
      from = 1;
      // The scrub finds the damaged head.
      if (head === null) continue;
      const plan = await planTask(reader, head, { policies, nowMs, rules }, { from: at, budget });
      checkpoints.push(...plan.removals.map((removal) => shown(task, removal)));
      from = plan.next ?? 1;
      const isLast = plan.next === null && i === rows.length - 1 && !more;
      if (isSpentBudget(budget) && !isLast) return page();
    }
    if (!more) return { checkpoints };
    if (isSpentBudget(budget)) return page();
  }
}

function placeIn(kind: string, cursor: string | undefined): { task: string; from: number } {
  if (cursor === undefined) return { task: "", from: 1 };
  const [from, task = ""] = openCursor(kind, cursor).split("/");
  return { task, from: Number(from) };
}

function shown(task_id: string, { checkpoint, reason, bytes }: PlannedRemoval): PrunableCheckpoint {
  const { metadata, execution_state, compliance } = checkpoint;
  return {
    checkpoint_id: metadata.checkpoint_id,
    task_id,
    seq: metadata.seq,
    committed_at: metadata.committed_at,
    trigger: metadata.trigger.reason,
    phase: execution_state.phase,
    retention_policy: compliance.retention_policy,
    reason,
    bytes,
  };
}
