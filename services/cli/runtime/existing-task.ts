// Reads a task that must exist.

import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Task } from "../../../shared/sdk/sdk.ts";
import type { Session } from "./session.ts";

/** Throws NOT_FOUND. */
export async function requireTask(session: Session, id: string): Promise<Task> {
  const client = await session.client();
  const task = await client.getTask(id, session.deadline);
  if (task === null) throw new FleetError("NOT_FOUND", "there is no such task", { details: { task_id: id } });
  return task;
}
