/** The commands of messages. */
import { type MessageRecord, missingRecipients } from "../../../lifecycle/mission/mailbox.ts";
import { requireActive } from "../../../lifecycle/mission/mission.ts";
import { FleetError } from "../../../protocol/errors.ts";
import type {
  MailboxSubscribeCommand,
  MessageAckCommand,
  MessageCancelCommand,
  MessageSendCommand,
} from "../../../protocol/mission-messages.ts";
import { parsePrincipal } from "../../../protocol/principal.ts";
import type { Tx } from "../../../store/store.ts";
import type { CommandContext, Replay } from "../../task/command-transaction.ts";
import type { RememberedMessage, RememberedSubscription } from "../../task/idempotency.ts";
import { MissionTransaction } from "../mission-transaction.ts";
import { requireMessage } from "./mailbox-records.ts";

export async function sendMessage(
  tx: Tx,
  context: CommandContext,
  { to, subject, body, timeout_ms }: MessageSendCommand,
): Promise<RememberedMessage | Replay> {
  const work = await MissionTransaction.begin(tx, context, { specialist: true });
  if (!(work instanceof MissionTransaction)) return work;
  requireActive(work.mission);
  await work.requireCorrespondent();
  const mailbox = await work.mailbox();
  const from = context.actor.agent;
  const draft = { kind: "message", from, to, subject, body, timeout_ms } as const;
  const message = mailbox.send(draft, { isShared: !work.directs });
  await work.writeMailbox();
  const unknown = await unknownOf(work, to);
  return work.complete({ ...answerOf(work, message), ...(unknown.length > 0 && { unknown }) });
}

/** The recipients that neither take part in the mission nor are people: perhaps a misspelled name. */
async function unknownOf(work: MissionTransaction, to: readonly string[]): Promise<string[]> {
  const specialists = await work.specialists();
  return to.filter(
    (agent) => agent !== work.director && !specialists.has(agent) && parsePrincipal(agent)?.kind !== "human",
  );
}

/** A mission that has ended still takes receipts, so that its messages do not fail. */
export function acknowledgeMessage(
  tx: Tx,
  context: CommandContext,
  { message_id }: MessageAckCommand,
): Promise<RememberedMessage | Replay> {
  return changeMessage(tx, context, message_id, async (work, before) =>
    (await work.mailbox()).acknowledge(before, context.actor.agent),
  );
}

/** Also after the end of the mission. */
export function cancelMessage(
  tx: Tx,
  context: CommandContext,
  { message_id }: MessageCancelCommand,
): Promise<RememberedMessage | Replay> {
  const { agent } = context.actor;
  return changeMessage(tx, context, message_id, async (work, before) => {
    if (before.kind !== "message" || (before.from !== agent && !work.directs)) {
      const rule = "only its sender, the coordinator and people cancel a message of an agent or a person";
      throw new FleetError("FORBIDDEN", rule, { details: { message_id, from: before.from } });
    }
    return (await work.mailbox()).cancel(before, agent);
  });
}

async function changeMessage(
  tx: Tx,
  context: CommandContext,
  id: string,
  change: (work: MissionTransaction, before: MessageRecord) => Promise<MessageRecord>,
): Promise<RememberedMessage | Replay> {
  const work = await MissionTransaction.begin(tx, context, { specialist: true });
  if (!(work instanceof MissionTransaction)) return work;
  // Throws NOT_FOUND without such a mission.
  void work.mission;
  const message = await change(work, await requireMessage(tx, work.keys, context.actor.task, id));
  await work.writeMailbox();
  return work.complete(answerOf(work, message));
}

export async function subscribeMailbox(
  tx: Tx,
  context: CommandContext,
  { events }: MailboxSubscribeCommand,
): Promise<RememberedSubscription | Replay> {
  const work = await MissionTransaction.begin(tx, context, { specialist: true });
  if (!(work instanceof MissionTransaction)) return work;
  requireActive(work.mission);
  if (events.length > 0) await work.requireCorrespondent();
  const { agent: agent_id, task: task_id } = context.actor;
  (await work.mailbox()).subscribe(agent_id, events);
  await work.writeMailbox();
  return work.complete({ task_id, committed_at: work.at, agent_id, events });
}

function answerOf({ at, context }: MissionTransaction, message: MessageRecord): RememberedMessage {
  const { message_id, state, deadline, receipts } = message;
  return {
    task_id: context.actor.task,
    committed_at: at,
    message_id,
    state,
    deadline,
    received_by: receipts.map(({ agent_id }) => agent_id),
    missing: missingRecipients(message),
  };
}
