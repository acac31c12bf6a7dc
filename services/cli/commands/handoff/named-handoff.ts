// Finds the handoff that an operator names: by its id, or by its task.

import type { Handoff } from "../../../../shared/sdk/sdk.ts";
import { bareId } from "../../input/id.ts";
import type { Session } from "../../runtime/session.ts";

const ID = /^(chk-)?[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Of a task: the open handoff, else the latest. Throws NOT_FOUND. */
export async function namedHandoff(session: Session, name: string): Promise<Handoff> {
  const client = await session.client();
  const found = ID.test(name)
    ? await client.handoff(bareId(name), session.deadline)
    : await client.handoffOf(name, session.deadline);
  if (found !== null) return found;
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  throw new FleetError("NOT_FOUND", "there is no such handoff", { details: { handoff: name } });
}
