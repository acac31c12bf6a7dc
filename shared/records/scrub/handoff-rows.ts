/**
 * Verifies that each handoff of a tenant is listed with its task. The tenant's list of handoffs shows a
 * record that is not, and the verification of the task does not reach it.
 */
import { FleetError } from "../../protocol/errors.ts";
import { isToken } from "../../protocol/ids.ts";
import type { Bytes } from "../../store/store.ts";
import { decodeHandoff } from "../handoff/record.ts";
import { after, endingId, tenantKeys } from "../kv/keyspace.ts";
import { readable } from "./head.ts";
import { ofTask, type ScrubStep, TaskScrub } from "./scrub-reader.ts";

/** The number of records in one read. */
const SLICE = 64;

/** Returns the key after which the next call continues; null: all are verified. */
export async function verifyHandoffRows(
  step: ScrubStep,
  tenant: string,
  from: Bytes | null,
): Promise<Bytes | null> {
  const keys = tenantKeys(tenant);
  const { begin, end } = keys.handoffs();
  const range = { begin: from === null ? begin : after(from), end };
  const { rows, more } = await step.reader.getRange(range, { limit: SLICE });
  const handoffs = rows.flatMap(({ key, value }) => {
    const id = endingId(key);
    const task = taskOf(id, value);
    return task === null ? [] : [{ id, task }];
  });
  const listed = await step.reader.getMany(handoffs.map(({ task, id }) => keys.taskHandoff(task, id)));
  for (const [i, { task, id }] of handoffs.entries()) {
    if (listed[i] !== undefined) continue;
    const damage = ofTask("handoff", `handoff ${id} is not among the task's`);
    // The trail of the task has led to the same finding if it began the handoff.
    const isNoted = step.damages.some(
      (one) => one.tenant === tenant && one.task === task && one.details === damage.details,
    );
    if (!isNoted) new TaskScrub(step, tenant, task, { canMark: false, found: 0 }).note(damage);
  }
  return more ? (rows.at(-1)?.key ?? null) : null;
}

/** null: unreadable. The tenant's list of handoffs then fails, and the task reports it if it lists it. */
function taskOf(id: string, value: Bytes): string | null {
  try {
    const task: unknown = readable(() => decodeHandoff(id, value))?.task_id;
    return typeof task === "string" && isToken(task) ? task : null;
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return null;
    throw error;
  }
}
