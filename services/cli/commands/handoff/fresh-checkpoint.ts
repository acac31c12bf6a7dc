// Before a task is reassigned, its owner is asked for a fresh checkpoint. The reassignment happens in any case.

import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

/** The description of the option that leaves this out. */
export const NO_FRESH = "do not ask the owner for a fresh checkpoint first (it gets five seconds)";

export async function askForFreshCheckpoint(
  session: Session,
  client: FleetClient,
  task: string,
): Promise<void> {
  session.progress("Asking the owner for a fresh checkpoint…\n");
  try {
    const { result } = await client.requestCheckpoint(task);
    if (result === "silent")
      session.warn({
        code: "NO_FRESH_CHECKPOINT",
        text: "the owner wrote no fresh checkpoint in time, so the last one counts",
        details: { task_id: task },
      });
  } catch (error) {
    // A task that does not exist, or a bus that is away: the command itself reports it.
    session.progress(`The owner was not asked: ${(error as Error).message}\n`);
  }
}
