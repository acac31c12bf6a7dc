// A recovery that a person asks for, and what is said of it: also what it has put an end to.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { RecoverOptions } from "../../../../shared/sdk/client/admin.ts";
import type { Handoff, Task } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

export interface Asked {
  readonly taskId: string;
  /** null: the newest that verifies. */
  readonly checkpointId: string | null;
  readonly wish: Omit<RecoverOptions, "taskId">;
}

/** `task`: as it was just found, if it was looked at already; what cannot be looked at is recovered all the same. */
export async function requestRecovery(
  session: Session,
  { taskId, checkpointId, wish }: Asked,
  task?: Task | null,
): Promise<void> {
  const client = await session.client();
  const found = task ?? (await client.getTask(taskId, session.deadline).catch(() => null));
  const asked = client.admin.executeRecovery(checkpointId, { ...session.deadline, ...wish, taskId });
  const result = await asked.catch((error: unknown) => {
    throw found?.latest_id === null ? unwritten(error) : error;
  });
  const replaced =
    found?.handoff_id == null ? null : await endedBy(session, result.commandId, found.handoff_id);
  const { renderRecovering, recoveringData } = await import("../../rendering/recovery/recovery.ts");
  await session.show({ ...recoveringData(result), replaced_handoff_id: replaced?.handoff_id ?? null }, () =>
    renderRecovering({ ...result, reset: wish.reset ?? false, replaced }, session.programName, session.view),
  );
}

/** Why there is nothing to go on from: that nothing was written yet can be mended. */
function unwritten(error: unknown): unknown {
  if (!(error instanceof FleetError) || error.code !== "NOT_FOUND") return error;
  const details = { ...error.details, latest_id: null };
  return new FleetError(error.code, error.message, { details, cause: error });
}

/** The handoff, if the command put an end to it. The recovery is on its way: that nobody can say this is no failure of it. */
async function endedBy(session: Session, commandId: string, handoffId: string): Promise<Handoff | null> {
  const client = await session.client();
  const handoff = await client.handoff(handoffId, session.deadline).catch(() => null);
  return handoff?.failure?.details === commandId ? handoff : null;
}
