// The id of a message with its mission, as `fleet message read` prints it: msn-auth/msg-0003. Each mission counts its own
// messages and the current mission changes, so an id alone could be that of another message.

import { UsageError } from "../runtime/usage.ts";

export interface NamedMessage {
  readonly mission: string;
  readonly messageId: string;
}

const FORM = /^(?:([A-Za-z0-9_-]+)\/)?(msg-\d+)$/;

export const qualifiedMessageId = (mission: string, messageId: string): string => `${mission}/${messageId}`;

/** `mission`: that of the call, for ids without one. Throws UsageError for an id without a mission, or of another one. */
export function namedMessage(text: string, mission: string | undefined): NamedMessage {
  const [, own = mission, messageId = ""] = FORM.exec(text) ?? [];
  if (messageId === "") {
    throw new UsageError(
      `${text} is not the id of a message`,
      "Give it as `message read` prints it, such as msn-auth/msg-0003.",
    );
  }
  if (own === undefined) {
    throw new UsageError(
      `${text} does not say in which mission it is`,
      `Give its mission too, as in msn-auth/${messageId}, or with --mission.`,
    );
  }
  if (mission !== undefined && own !== mission)
    throw new UsageError(`${text} is not in the mission ${mission}`, "Leave out --mission.");
  return { mission: own, messageId };
}
