// `fleet message`: sends, lists, reads and acknowledges the messages of a mission.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { MailboxEvent, MessageResult } from "../../../../shared/sdk/sdk.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { fenceOption, MISSION_HELP, namedMission } from "./named-mission.ts";

/** The protocol's own lists come with its schemas, which would make the help slow. */
const STATES = ["queued", "delivered", "failed"] as const;
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
  /** Seconds. */
  readonly expires?: number;
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
    .description("Send, list, read and acknowledge the messages of a mission.");
  const sending = group
    .command("send")
    .description("Send a message. Each recipient must acknowledge it in time.")
    .argument("<subject>", "what it is about")
    .requiredOption("--to <agent...>", "the recipients")
    .option("--body <text>", "the message itself")
    .option("--mission <id>", MISSION_HELP)
    .option("--expires <seconds>", "the time in which it must be acknowledged (else 3600)", wholeNumber(1))
    .addOption(fenceOption())
    .action(action(sendOne));
  withExamples(sending, (fleet) => ({
    "To a specialist": `${fleet} message send "Review auth changes" --to specialist-2 --body "Before noon, please"`,
    "To two of them, within ten minutes": `${fleet} message send "Stop editing" --to specialist-1 specialist-2 --expires 600`,
  }));
  addReading(group, action);
  group
    .command("ack")
    .description("Acknowledge messages, after you have processed them. May be repeated.")
    .argument("<message...>", "their ids")
    .option("--mission <id>", MISSION_HELP)
    .action(action(acknowledgeAll));
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

function addReading(group: Command, action: ActionFactory): void {
  const reading = group
    .command("read")
    .description("Show the messages to you that you have not acknowledged, the oldest first.")
    .option("--mission <id>", MISSION_HELP)
    .option("--all", "then also the others to you, the newest first")
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
  const { mission: id, to = [], body, expires, fence } = flags;
  const { handle } = await namedMission(session, id, { fence });
  const timeoutMs = expires === undefined ? undefined : expires * 1_000;
  const result = await handle.send({ to, subject, body, timeoutMs }, session.deadline);
  const { renderSentMessage } = await import("../../rendering/missions/messages.ts");
  await session.show(result, () => renderSentMessage(result));
}

async function read(session: Session, flags: Flags): Promise<void> {
  const { mission: id, all = false, ack, limit, cursor } = flags;
  const { handle, mission, client } = await namedMission(session, id);
  const page = await handle.mailbox({ ...session.deadline, all, limit, cursor });
  const next = nextPage(session, page.cursor);
  const { renderMailbox } = await import("../../rendering/missions/messages.ts");
  await session.show(page, () => renderMailbox({ mission, agent: client.agentId, page, next }, session.view));
  if (ack !== true) return;
  // After the output, so that a message is not lost between the two.
  for (const { message_id, state } of page.messages) {
    if (state === "queued") await handle.acknowledge(message_id, session.deadline);
  }
}

async function list(session: Session, flags: Flags): Promise<void> {
  const { mission: id, state, with: agentId, limit, cursor } = flags;
  const { handle, mission } = await namedMission(session, id);
  const page = await handle.messageList({ ...session.deadline, state, agentId, limit, cursor });
  const next = nextPage(session, page.cursor);
  const { renderMessages } = await import("../../rendering/missions/messages.ts");
  await session.show(page, () => renderMessages({ mission, messages: page.messages, next }, session.view));
}

async function acknowledgeAll(session: Session, ids: readonly string[], flags: Flags): Promise<void> {
  const { handle } = await namedMission(session, flags.mission);
  const results: MessageResult[] = [];
  for (const id of ids) results.push(await handle.acknowledge(id, session.deadline));
  const { renderReceipt } = await import("../../rendering/missions/messages.ts");
  await session.show({ messages: results }, () => results.map(renderReceipt).join("\n"));
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
  await session.show(result, () =>
    result.events.length === 0 ? "Subscribed to no events." : `Subscribed to: ${result.events.join(", ")}`,
  );
}
