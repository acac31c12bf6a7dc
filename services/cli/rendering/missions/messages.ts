// The messages of a mission.

import type { MailboxPage, MessageResult, Mission, MissionMessage } from "../../../../shared/sdk/sdk.ts";
import { qualifiedMessageId } from "../../input/message-id.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { counted, plain, principalText } from "../terminal/text.ts";
import { ago, exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

/** Also the form that `message ack` takes. */
const nameOf = (mission: string, messageId: string): string => plain(qualifiedMessageId(mission, messageId));

export function renderSentMessage({ taskId, messageId, missing, deadline }: MessageResult): string {
  return [
    `Message sent: ${nameOf(taskId, messageId)}`,
    `To: ${missing.map(principalText).join(", ")}`,
    `Until: ${plain(deadline)}`,
  ].join("\n");
}

export function renderReceipt({ taskId, messageId, state, missing }: MessageResult): string {
  const isOver = state === "delivered" || state === "cancelled";
  const rest = isOver ? state : `${state}, waits for ${missing.map(principalText).join(", ")}`;
  return `Acknowledged: ${nameOf(taskId, messageId)} (${rest})`;
}

export function renderCancellation({ taskId, messageId }: MessageResult): string {
  return `Cancelled: ${nameOf(taskId, messageId)}`;
}

interface ListView {
  readonly mission: Mission;
  readonly messages: readonly MissionMessage[];
  readonly next: string | undefined;
}

export function renderMessages({ mission, messages, next }: ListView, view: View): string {
  const title = `Messages of mission ${plain(mission.mission_id)}`;
  if (messages.length === 0 && next === undefined) return `${title}\n\nNone.`;
  const heads = ["MESSAGE", "STATE", "FROM", "TO", "SENT", "UNTIL", "SUBJECT"];
  const rows = messages.map((one) => [
    plain(one.message_id),
    one.state,
    principalText(one.from),
    one.to.map(principalText).join(", "),
    ago(one.sent_at, view.now),
    exactly(one.deadline, view.now),
    plain(one.subject),
  ]);
  const fit = [
    undefined,
    undefined,
    { least: 8, names: true },
    { least: 8, names: true },
    { leaves: 2 },
    { leaves: 1 },
    { least: 12 },
  ] as const;
  return [
    title,
    "",
    ...tableLines(rows, { heads, view, fit }),
    "",
    ...pageEnd(counted(messages.length, "message"), next, view),
  ].join("\n");
}

interface MailboxView {
  readonly mission: Mission;
  readonly agent: string;
  readonly page: MailboxPage;
  readonly next: string | undefined;
}

export function renderMailbox({ mission, agent, page, next }: MailboxView, view: View): string {
  const title = `Mailbox of ${principalText(agent)} in mission ${plain(mission.mission_id)}`;
  const { failed } = page;
  const missed =
    failed === 0 ? [] : [`${counted(failed, "message")} failed before you acknowledged: see --all.`];
  if (page.messages.length === 0 && next === undefined) return [`${title}\n\nNone.`, ...missed].join("\n");
  const parts = page.messages.flatMap((one) => ["", ...messageLines(one, view)]);
  const end = pageEnd(counted(page.messages.length, "message"), next, view);
  return [title, ...parts, "", ...end, ...missed].join("\n");
}

/** Each line of the text is plain, so that an agent cannot write to the terminal of its reader. */
function messageLines(message: MissionMessage, { colors, now }: View): string[] {
  const { mission_id, message_id, state, from, subject, body, sent_at } = message;
  const mark = state === "queued" ? "" : `, ${state}`;
  return [
    `${colors.bold(nameOf(mission_id, message_id))}  From: ${principalText(from)}  ${ago(sent_at, now)}${mark}`,
    `  Subject: ${plain(subject)}`,
    ...(body === "" ? [] : body.split("\n").map((line) => `  ${plain(line)}`)),
  ];
}
