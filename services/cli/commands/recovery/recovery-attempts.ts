// The handoffs of the newest recovery attempts, and of the tasks that no agent accepted.

import type { FleetClient, Handoff, Task } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

/** Reads the handoffs of tasks with an open attempt or with an unaccepted last handoff. A handoff that cannot be read is left out. */
export async function attemptsOf(
  session: Session,
  client: FleetClient,
  tasks: readonly Task[],
): Promise<Handoff[]> {
  const found = tasks.map(async ({ task_id, owner, recovery, blocked }) => {
    if (blocked?.reason === "no_agent" && blocked.taken_by === null)
      return client.handoffOf(task_id, session.deadline).catch(() => null);
    if (recovery?.state !== "attempted" || owner !== null || recovery.handoff_id === null) return null;
    return client.handoff(recovery.handoff_id, session.deadline).catch(() => null);
  });
  return (await Promise.all(found)).filter((one) => one !== null);
}
