/** Ends the messages whose deadline is over (US-302). */
import { undeliveredText } from "../../../lifecycle/mission/mailbox.ts";
import type { MissionTransaction } from "../mission-transaction.ts";
import { readMessages } from "./mailbox-records.ts";

/** The messages of one transaction. The index names the mission again for the rest. */
const MESSAGES_MAX = 25;

export interface DeliveryFailures {
  readonly failed: number;
  /** Of an error checkpoint: the messages of agents and people. */
  readonly blockers: readonly string[];
}

export async function failOverdue(work: MissionTransaction): Promise<DeliveryFailures> {
  const mailbox = await work.mailbox();
  const { nowMs, actor } = work.context;
  const numbers = mailbox.mailbox.open
    .filter(({ state, deadline }) => state === "queued" && Date.parse(deadline) <= nowMs)
    .slice(0, MESSAGES_MAX)
    .map(({ number }) => number);
  const blockers: string[] = [];
  let failed = 0;
  for (const message of await readMessages(work.tx, work.keys, actor.task, numbers)) {
    if (message === null) continue;
    const after = mailbox.fail(message);
    failed += 1;
    if (after.kind === "message") blockers.push(undeliveredText(after));
  }
  await work.writeMailbox();
  return { failed, blockers };
}

export const deliveryFailure = ([first]: readonly string[]): string => `MessageDeliveryFailure: ${first}`;
