/** The command `hold`, and the list of all holds of a tenant. */
import { NO_RETENTION } from "../../lifecycle/retention/hold-rules.ts";
import type { HoldCommand, HoldPage } from "../../protocol/holds.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { after, parseTask, tenantKeys } from "../kv/keyspace.ts";
import { begin, type CommandContext, complete, decided, type Replay } from "../task/command-transaction.ts";
import { decodeSoundHead } from "../task/head.ts";
import type { RememberedRetention } from "../task/idempotency.ts";

/** The number of heads read at once. */
const SLICE = 100;

/** Throws NOT_FOUND for an unknown task, and CONFLICT for a hold that the task does not have. */
export async function holdTask(
  tx: Tx,
  context: CommandContext,
  { hold, release, reason, case: reference }: HoldCommand,
): Promise<RememberedRetention | Replay> {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const state = { task: begun.head, handoff: null };
  const decision = decided(context, state, { type: "hold", hold, release, reason, case: reference });
  const { task_id, retention } = decision.task;
  const { policy: retention_policy, holds } = retention ?? NO_RETENTION;
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: { task_id, retention_policy, holds: [...holds], committed_at: decision.at },
  });
}

/** Heads are read in bounded pages. All holds of a task are on one page. */
export async function listHolds(
  reader: Reader,
  tenant: string,
  { limit, cursor }: QueryParams<"holds">,
): Promise<HoldPage> {
  const keys = tenantKeys(tenant);
  const kind = `holds/${tenant}`;
  const { begin, end } = keys.tasks();
  let from = cursor === undefined ? begin : after(keys.task(openCursor(kind, cursor)));
  const found: HoldPage = { holds: [], corrupt: [] };
  for (let read = 0; ; ) {
    const { rows, more } = await reader.getRange({ begin: from, end }, { limit: SLICE });
    for (const [i, { key, value }] of rows.entries()) {
      const task_id = parseTask(key);
      read += 1;
      const head = decodeSoundHead(value);
      if (head === null) found.corrupt.push(task_id);
      const { holds, placed = [] } = head?.retention ?? NO_RETENTION;
      for (const name of holds) {
        const facts = placed.find((one) => one.name === name);
        found.holds.push({ task_id, ...(facts ?? { name, by: null, at: null, reason: null, case: null }) });
      }
      const isFull = found.holds.length >= limit || read >= LIMITS.scrub_step_rows_max;
      if (isFull && (more || i < rows.length - 1)) return { ...found, cursor: sealCursor(kind, task_id) };
      from = after(key);
    }
    if (!more) return found;
  }
}
