/** The recovery of a task lies in its head; what leads to it must say the same, or nobody would see to it again. */
import type { Task } from "../../protocol/task.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { ofTask, type Sight } from "./scrub-reader.ts";

export async function verifyRecovery(sight: Sight, { recovery, tenant, task_id: task }: Task): Promise<void> {
  if (recovery === null) return;
  const { reader, keys } = sight;
  const { state, due_at } = recovery;
  const listed = await reader.get(keys.recovering(task));
  if ((listed !== undefined) !== (state !== "idle")) {
    const is = listed === undefined ? "is not" : "is";
    sight.note(ofTask("recovery", `the recovery is ${state}, and the task ${is} among those that recover`));
  }
  if (due_at === null) return;
  const due = await reader.get(systemKeys.recoveryDue(Date.parse(due_at), tenant, task));
  if (due === undefined) sight.note(ofTask("recovery", "the recovery is not among those that are due"));
}
