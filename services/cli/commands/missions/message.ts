// `fleet message`: sends, lists, reads and acknowledges the messages of a mission.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { toSnake } from "../../../../shared/sdk/case-convert.ts";
import type { MailboxEvent } from "../../../../shared/sdk/sdk.ts";
import { secondsOrDuration } from "../../input/duration.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { qualifiedMessageId } from "../../input/message-id.ts";
import { collectRecipients } from "../../input/recipient.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { acknowledgeMessages, cancelMessages, reportEach } from "./message-receipts.ts";
import { fenceOption, MISSION_HELP, namedMission } from "./named-mission.ts";

/** The protocol's own lists come with its schemas, which would make the help slow. */
const STATES = ["queued", "delivered", "failed", "cancelled"] as const;
const EVENTS = [
  "fleet_checkpointed",
  "checkpoint_created",
  "fleet_recovered",
  "context_compacted",
  "recovery_available",
  "mission_changed",
] as const satisfies MailboxEvent[];

interface Flags {
  readonly mission?: string;
  readonly to?: readonly string[];
  readonly body?: string;
  /** Milliseconds. */
  readonly expires?: number;
  readonly quiet?: true;
  readonly state?: (typeof STATES)[number];
  readonly with?: string;
  readonly all?: true;
  readonly ack?: true;
  readonly events?: readonly MailboxEvent[];
  readonly none?: true;
  readonly limit?: number;
  readonly cursor?: string;
  readonly fence?: number;
}

export function addMessage(program: Command, action: ActionFactory): void {
  const group = program
    .command("message")
    .description("Send, list, read, acknowledge and cancel the messages of a mission.");
  const sending = group
    .command("send")
    .description("Send a message. Each recipient must acknowledge it in time.")
    .argument("<subject>", "what it is about")
    .requiredOption("--to <agent...>", "the recipients, with spaces between them", collectRecipients)
    .option("--body <text>", "the message itself")
    .option("--mission <id>", MISSION_HELP)
    .option(
      "--expires <time>",
      "the time in which it must be acknowledged, such as 10m (else 1h)",
      secondsOrDuration("1s"),
    )
    .addOption(fenceOption())
    .option("-q, --quiet", "print only its id, with its mission")
    .action(action(sendOne));
  withExamples(sending, (fleet) => ({
    "To a specialist": `${fleet} message send "Review auth changes" --to specialist-2 --body "Before noon, please"`,
    "To two of them, within ten minutes": `${fleet} message send "Stop editing" --to specialist-1 specialist-2 --expires 10m`,
  }));
  addReading(group, action);
  addEnds(group, action);
  const subscription = group
    .command("subscribe")
    .description("Get events of a mission as messages. Replaces what you had subscribed to.")
    .option("--mission <id>", MISSION_HELP)
    .addOption(new Option("--events <event...>", "the events").choices(EVENTS).conflicts("none"))
    .option("--none", "no events any more")
    .addOption(fenceOption())
    .action(action(subscribe));
  withExamples(subscription, (fleet) => ({
    "Learn of checkpoints and resumptions": `${fleet} message subscribe --events fleet_checkpointed fleet_recovered --agent dispatch`,
  }));
}

const IDS_HELP = "their ids as `message read` prints them, such as msn-auth/msg-0003";
const IDS_MISSION_HELP = "the mission of ids that name none";

function addEnds(group: Command, action: ActionFactory): void {
  const receipt = group
    .command("ack")
    .description("Acknowledge messages, after you have processed them. May be repeated.")
    .argument("<message...>", IDS_HELP)
    .option("--mission <id>", IDS_MISSION_HELP)
    .action(action(acknowledgeMessages));
  withExamples(receipt, (fleet) => ({
    "Two messages of a mission": `${fleet} message ack msn-auth/msg-0003 msn-auth/msg-0004 --agent specialist-2`,
  }));
  const cancellation = group
    .command("cancel")
    .description("Withdraw messages that are not delivered: your own, or any as the coordinator or a person.")
    .argument("<message...>", IDS_HELP)
    .option("--mission <id>", IDS_MISSION_HELP)
    .addOption(fenceOption())
    .action(action(cancelMessages));
  withExamples(cancellation, (fleet) => ({
    "A message that is not needed any more": `${fleet} message cancel msn-auth/msg-0003`,
  }));
}

function addReading(group: Command, action: ActionFactory): void {
  const reading = group
    .command("read")
    .description("Show the queued messages to you that you have not acknowledged, the oldest first.")
    .option("--mission <id>", MISSION_HELP)
    .option(
      "--all",
      "then also the others to you, such as those that failed at their deadline; the newest first",
    )
    .option("--ack", "acknowledge those that are shown")
    .addOption(limitOption(LIMITS.messages_limit_default, LIMITS.messages_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(read));
  withExamples(reading, (fleet) => ({
    "A specialist reads its mailbox": `${fleet} message read --agent specialist-2`,
    "And acknowledges what it has read": `${fleet} message read --ack --agent specialist-2`,
  }));
  const listing = group
    .command("list")
    .description(
      "List the messages of a mission, the newest first: all for the coordinator and people, else your own.",
    )
    .option("--mission <id>", MISSION_HELP)
    .addOption(new Option("-s, --state <state>", "only those in this state").choices(STATES))
    .option("--with <agent>", "only those to or from this agent")
    .addOption(limitOption(LIMITS.messages_limit_default, LIMITS.messages_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(list));
  withExamples(listing, (fleet) => ({ "What was not delivered": `${fleet} messages --state failed` }));
}

async function sendOne(session: Session, subject: string, flags: Flags): Promise<void> {
  const { mission: id, to = [], body, expires: timeoutMs, fence, quiet } = flags;
  const { handle } = await namedMission(session, id, { fence });
  const result = await handle.send({ to, subject, body, timeoutMs }, session.deadline);
  for (const agent_id of result.unknown ?? []) {
    const text = "a recipient has no part in the mission, and is perhaps misspelled";
    session.warn({ code: "UNKNOWN_RECIPIENT", text, details: { agent_id } });
  }
  const { renderSentMessage } = await import("../../rendering/missions/messages.ts");
  await session.show(toSnake(result), () =>
    quiet === true ? qualifiedMessageId(result.taskId, result.messageId) : renderSentMessage(result),
  );
}

async function read(session: Session, flags: Flags): Promise<void> {
  const { mission: id, all = false, ack, limit, cursor } = flags;
  const { handle, mission, client } = await namedMission(session, id);
  const page = await handle.mailbox({ ...session.deadline, all, limit, cursor });
  const next = nextPage(session, page.cursor);
  const { renderMailbox } = await import("../../rendering/missions/messages.ts");
  await session.show(page, () => renderMailbox({ mission, agent: client.agentId, page, next }, session.view));
  if (ack !== true) return;
  const unread = page.messages.filter(
    ({ state, receipts }) =>
      (state === "queued" || state === "failed") &&
      !receipts.some(({ agent_id }) => agent_id === client.agentId),
  );
  // After the output, so that a message is not lost between the two.
  await reportEach(
    session,
    unread.map(({ mission_id, message_id }) => ({ mission: mission_id, messageId: message_id })),
    ({ messageId }) => handle.acknowledge(messageId, session.deadline),
  );
}

async function list(session: Session, flags: Flags): Promise<void> {
  const { mission: id, state, with: agentId, limit, cursor } = flags;
  const { handle, mission } = await namedMission(session, id);
  const page = await handle.messageList({ ...session.deadline, state, agentId, limit, cursor });
  const next = nextPage(session, page.cursor);
  const { renderMessages } = await import("../../rendering/missions/messages.ts");
  await session.show(page, () => renderMessages({ mission, messages: page.messages, next }, session.view));
}

async function subscribe(session: Session, { mission: id, events, none, fence }: Flags): Promise<void> {
  if (events === undefined && none !== true) {
    const { UsageError } = await import("../../runtime/usage.ts");
    throw new UsageError(
      "no events are given",
      "Name them with --events, or end the subscription with --none.",
    );
  }
  const { handle } = await namedMission(session, id, { fence });
  const result = await handle.subscribe(events ?? [], session.deadline);
  await session.show(toSnake(result), () =>
    result.events.length === 0 ? "Subscribed to no events." : `Subscribed to: ${result.events.join(", ")}`,
  );
}
