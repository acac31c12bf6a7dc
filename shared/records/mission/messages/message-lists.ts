/** The queries of messages. */
import { type MessageRecord, missingRecipients } from "../../../lifecycle/mission/mailbox.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import type { MailboxPage, MessagePage, MissionMessage } from "../../../protocol/mission-messages.ts";
import { parsePrincipal } from "../../../protocol/principal.ts";
import type { QueryParams } from "../../../protocol/queries.ts";
import type { Reader } from "../../../store/store.ts";
import { openCursor, sealCursor } from "../../kv/cursor.ts";
import { type TenantKeys, tenantKeys } from "../../kv/keyspace.ts";
import { decodeSoundHead } from "../../task/head.ts";
import { requireMission } from "../mission-lists.ts";
import { readAllMessages, readBodies, readMailbox, readOpenMessages } from "./mailbox-records.ts";

/** The size of the bodies on a page; the last one may exceed it. */
const PAGE_BYTES = LIMITS.reply_bytes_max / 2;

/** Throws NOT_FOUND without such a mission, CORRUPT. */
export async function readOwnMailbox(
  reader: Reader,
  tenant: string,
  caller: string,
  { mission_id, all, limit, cursor }: QueryParams<"mailbox">,
): Promise<MailboxPage> {
  const keys = tenantKeys(tenant);
  await requireMission(reader, keys, mission_id);
  const { subscribers } = await readMailbox(reader, keys, mission_id);
  const unread = (await readOpenMessages(reader, keys, mission_id)).filter((message) =>
    missingRecipients(message).includes(caller),
  );
  const waiting = unread.filter(({ state }) => state === "queued");
  const shown = new Set(waiting.map(({ number }) => number));
  const others = all
    ? (await readAllMessages(reader, keys, mission_id)).filter(
        ({ to, number }) => to.includes(caller) && !shown.has(number),
      )
    : [];
  const kind = `mailbox/${tenant}/${mission_id}/${caller}/${all}`;
  const page = await pageOf(reader, keys, mission_id, { waiting, others, kind, limit, cursor });
  const subscription = subscribers.find(({ agent_id }) => agent_id === caller);
  const failed = unread.filter(({ state }) => state === "failed").length;
  return { ...page, failed, subscribed: [...(subscription?.events ?? [])] };
}

/** Throws NOT_FOUND without such a mission, CORRUPT. */
export async function listMessages(
  reader: Reader,
  tenant: string,
  caller: string,
  { mission_id, state, agent_id, limit, cursor }: QueryParams<"messages">,
): Promise<MessagePage> {
  const keys = tenantKeys(tenant);
  const mission = await requireMission(reader, keys, mission_id);
  const head = await reader.get(keys.task(mission_id));
  const owner = head === undefined ? null : (decodeSoundHead(head)?.owner ?? null);
  const seesAll = parsePrincipal(caller)?.kind === "human" || caller === (owner ?? mission.created_by);
  const concerns = ({ from, to }: MessageRecord, agent: string): boolean =>
    from === agent || to.includes(agent);
  const others = (await readAllMessages(reader, keys, mission_id)).filter(
    (message) =>
      (seesAll || concerns(message, caller)) &&
      (state === undefined || message.state === state) &&
      (agent_id === undefined || concerns(message, agent_id)),
  );
  const kind = `messages/${tenant}/${mission_id}/${caller}/${state ?? ""}/${agent_id ?? ""}`;
  return pageOf(reader, keys, mission_id, { waiting: [], others, kind, limit, cursor });
}

interface Found {
  /** The oldest first; before the others. */
  readonly waiting: readonly MessageRecord[];
  /** The newest first. */
  readonly others: readonly MessageRecord[];
  readonly kind: string;
  readonly limit: number;
  readonly cursor: string | undefined;
}

const WAITING = "w";
const OTHER = "o";

/** The cursor names the list and the number of the last message, which may have left the list since. */
async function pageOf(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  { waiting, others, kind, limit, cursor }: Found,
): Promise<MessagePage> {
  const last = cursor === undefined ? "" : openCursor(kind, cursor);
  const number = Number(last.slice(1));
  const left = [
    ...(last.startsWith(OTHER) ? [] : waiting.filter((one) => one.number > number)),
    ...(last.startsWith(OTHER) ? others.filter((one) => one.number < number) : others),
  ];
  const slice = left.slice(0, limit);
  const bodies = await readBodies(reader, keys, task, slice);
  const messages: MissionMessage[] = [];
  let bytes = 0;
  for (const [i, message] of slice.entries()) {
    const body = bodies[i] ?? "";
    messages.push(shownMessage(task, message, body));
    bytes += Buffer.byteLength(body);
    if (bytes >= PAGE_BYTES) break;
  }
  const end = slice[messages.length - 1];
  if (end === undefined || messages.length >= left.length) return { messages };
  const list = waiting.includes(end) ? WAITING : OTHER;
  return { messages, cursor: sealCursor(kind, `${list}${end.number}`) };
}

function shownMessage(mission_id: string, message: MessageRecord, body: string): MissionMessage {
  const { message_id, kind, from, to, subject, sent_at, deadline, state, receipts, requeues, ended_at } =
    message;
  return {
    mission_id,
    message_id,
    kind,
    from,
    to: [...to],
    subject,
    body,
    sent_at,
    deadline,
    state,
    receipts: receipts.map((receipt) => ({ ...receipt })),
    requeues,
    ended_at,
  };
}
