// The handoffs of the newest recovery attempts.

import type { FleetClient, Handoff, Task } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

/** Reads the handoffs of tasks with an open attempt or with a failed last one. A handoff that cannot be read is left out. */
export async function attemptsOf(
  session: Session,
  client: FleetClient,
  tasks: readonly Task[],
): Promise<Handoff[]> {
  const found = tasks.map(async ({ owner, recovery, blocked }) => {
    const isShown = recovery?.state === "attempted" || blocked?.reason === "no_agent";
    if (!isShown || owner !== null || recovery == null || recovery.handoff_id === null) return null;
    return client.handoff(recovery.handoff_id, session.deadline).catch(() => null);
  });
  return (await Promise.all(found)).filter((one) => one !== null);
}
