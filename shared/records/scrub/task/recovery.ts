/**
 * Verifies the index entries of a task's recovery against its head. Without them no sweep finds the recovery.
 */
import type { Task } from "../../../protocol/task.ts";
import { systemKeys } from "../../kv/keyspace.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";

export async function verifyRecovery(
  scrub: TaskScrub,
  { recovery, tenant, task_id: task }: Task,
): Promise<void> {
  if (recovery === null) return;
  const { reader, keys } = scrub;
  const { state, due_at } = recovery;
  const listed = await reader.get(keys.recovering(task));
  if ((listed !== undefined) !== (state !== "idle")) {
    const is = listed === undefined ? "is not" : "is";
    scrub.note(ofTask("recovery", `the recovery is ${state}, and the task ${is} among those that recover`));
  }
  if (due_at === null) return;
  const due = await reader.get(systemKeys.recoveryDue(Date.parse(due_at), tenant, task));
  if (due === undefined) scrub.note(ofTask("recovery", "the recovery is not among those that are due"));
}
