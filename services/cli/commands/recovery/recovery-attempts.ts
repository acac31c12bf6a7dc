// The handoffs of the newest recovery attempts, and of the tasks that could not be handed to an agent.

import type { BlockReason } from "../../../../shared/protocol/recovery-states.ts";
import type { FleetClient, Handoff, Task } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

/** The blocks whose cause is in the last handoff. */
const ESCALATED: ReadonlySet<BlockReason> = new Set(["no_agent", "agent_type_unknown", "prompt_over_budget"]);

/** Reads the handoffs of tasks with an open attempt or with an escalated last handoff. A handoff that cannot be read is left out. */
export async function attemptsOf(
  session: Session,
  client: FleetClient,
  tasks: readonly Task[],
): Promise<Handoff[]> {
  const found = tasks.map(async ({ task_id, owner, recovery, blocked }) => {
    if (blocked?.taken_by === null && ESCALATED.has(blocked.reason))
      return client.handoffOf(task_id, session.deadline).catch(() => null);
    if (recovery?.state !== "attempted" || owner !== null || recovery.handoff_id === null) return null;
    return client.handoff(recovery.handoff_id, session.deadline).catch(() => null);
  });
  return (await Promise.all(found)).filter((one) => one !== null);
}
