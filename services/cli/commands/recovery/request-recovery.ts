// Requests a recovery in an operator's name and prints the result, with the handoff that it has cancelled.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { RecoverOptions } from "../../../../shared/sdk/client/admin.ts";
import type { Handoff, Task } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

export interface RecoveryRequest {
  readonly taskId: string;
  /** null: the newest sound checkpoint. */
  readonly checkpointId: string | null;
  readonly options: Omit<RecoverOptions, "taskId">;
}

/** `task`: its current state, if the caller has read it. A task that cannot be read is recovered all the same. */
export async function requestRecovery(
  session: Session,
  { taskId, checkpointId, options }: RecoveryRequest,
  task?: Task | null,
): Promise<void> {
  const client = await session.client();
  const found = task ?? (await client.getTask(taskId, session.deadline).catch(() => null));
  const asked = client.admin.executeRecovery(checkpointId, { ...session.deadline, ...options, taskId });
  const result = await asked.catch((error: unknown) => {
    throw found?.latest_id === null ? withoutCheckpoint(error) : error;
  });
  const replaced =
    found?.handoff_id == null ? null : await cancelledBy(session, result.commandId, found.handoff_id);
  const { recoveryRequestData, renderRecoveryRequest } = await import(
    "../../rendering/recovery/recovery-request.ts"
  );
  await session.show(
    { ...recoveryRequestData(result), replaced_handoff_id: replaced?.handoff_id ?? null },
    () =>
      renderRecoveryRequest(
        { ...result, reset: options.reset ?? false, replaced },
        session.programName,
        session.view,
      ),
  );
}

/** Adds to NOT_FOUND that the task has no checkpoint yet, because the operator can write one. */
function withoutCheckpoint(error: unknown): unknown {
  if (!(error instanceof FleetError) || error.code !== "NOT_FOUND") return error;
  const details = { ...error.details, latest_id: null };
  return new FleetError(error.code, error.message, { details, cause: error });
}

/** The handoff, if the command has cancelled it. The recovery has started already, so a failed read is no failure of it. */
async function cancelledBy(session: Session, commandId: string, handoffId: string): Promise<Handoff | null> {
  const client = await session.client();
  const handoff = await client.handoff(handoffId, session.deadline).catch(() => null);
  return handoff?.failure?.details === commandId ? handoff : null;
}
