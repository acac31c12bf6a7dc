/**
 * The messages after a resumption (seed 002, phase 2 and edge cases): a message of the snapshot that is not delivered
 * is queued again once, so that a repeated resumption changes nothing, also from the checkpoint that its second failure wrote. A message
 * that has been delivered or cancelled since is skipped.
 */
import type { MessageSnapshot } from "../../protocol/mission.ts";
import type { SkippedMessage } from "../../protocol/mission-messages.ts";
import { type MessageRecord, undeliveredText } from "./mailbox.ts";

export interface MessageRestoration {
  readonly requeue: readonly MessageRecord[];
  /** Messages of the snapshot that are queued afterwards. */
  readonly queued: number;
  readonly skipped: readonly SkippedMessage[];
  readonly blockers: readonly string[];
}

/** `present`: the messages of the mission, by their ids. */
export function restoreMessages(
  snapshots: readonly MessageSnapshot[],
  present: ReadonlyMap<string, MessageRecord>,
): MessageRestoration {
  const requeue: MessageRecord[] = [];
  const skipped: SkippedMessage[] = [];
  const blockers: string[] = [];
  let queued = 0;
  for (const { id: message_id } of snapshots) {
    const message = present.get(message_id);
    if (message === undefined) skipped.push({ message_id, reason: "removed" });
    else if (message.state === "delivered" || message.state === "cancelled")
      skipped.push({ message_id, reason: message.state });
    else if (message.requeues === 0 && message.kind !== "event") {
      requeue.push(message);
      queued += 1;
    } else if (message.state === "queued") queued += 1;
    else if (message.kind !== "event") {
      skipped.push({ message_id, reason: "failed_again" });
      blockers.push(`${undeliveredText(message)}, also after it was queued again`);
    }
  }
  return { requeue, queued, skipped, blockers };
}
