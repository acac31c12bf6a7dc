// `fleet message ack` and `cancel`: end messages that the call names, each by itself.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import { toSnake } from "../../../../shared/sdk/case-convert.ts";
import type { MessageResult } from "../../../../shared/sdk/sdk.ts";
import { type NamedMessage, namedMessage } from "../../input/message-id.ts";
import type { Session } from "../../runtime/session.ts";
import { namedMission } from "./named-mission.ts";

interface Flags {
  readonly mission?: string;
  readonly fence?: number;
}

export async function acknowledgeMessages(
  session: Session,
  ids: readonly string[],
  flags: Flags,
): Promise<void> {
  const results = await endEach(session, ids, flags, "acknowledge");
  const { renderReceipt } = await import("../../rendering/missions/messages.ts");
  if (results.length > 0)
    await session.show({ messages: results.map(toSnake) }, () => results.map(renderReceipt).join("\n"));
}

export async function cancelMessages(session: Session, ids: readonly string[], flags: Flags): Promise<void> {
  const results = await endEach(session, ids, flags, "cancelMessage");
  const { renderCancellation } = await import("../../rendering/missions/messages.ts");
  if (results.length > 0)
    await session.show({ messages: results.map(toSnake) }, () => results.map(renderCancellation).join("\n"));
}

async function endEach(
  session: Session,
  ids: readonly string[],
  { mission, fence }: Flags,
  act: "acknowledge" | "cancelMessage",
): Promise<MessageResult[]> {
  // All ids are checked before the first message ends.
  const named = ids.map((id) => namedMessage(id, mission));
  const missions = new Map<string, ReturnType<typeof namedMission>>();
  const handleOf = (id: string) => {
    const found = missions.get(id) ?? namedMission(session, id, { fence });
    missions.set(id, found);
    return found;
  };
  return reportEach(session, named, async ({ mission: id, messageId }) =>
    (await handleOf(id)).handle[act](messageId, session.deadline),
  );
}

/** The results. Each failure is printed, and the exit code is that of the last one. */
export async function reportEach(
  session: Session,
  messages: readonly NamedMessage[],
  act: (message: NamedMessage) => Promise<MessageResult>,
): Promise<MessageResult[]> {
  const results: MessageResult[] = [];
  for (const message of messages) {
    try {
      results.push(await act(message));
    } catch (error) {
      await session.fail(withNames(error, message));
    }
  }
  return results;
}

function withNames(error: unknown, { mission, messageId }: NamedMessage): unknown {
  if (!(error instanceof FleetError)) return error;
  const { code, message, fields } = error;
  // A mission that does not exist is the whole problem.
  const own = error.details.mission_id === undefined ? { message_id: messageId } : {};
  const details = { ...error.details, mission_id: mission, ...own };
  return new FleetError(code, message, { details, fields, cause: error });
}
