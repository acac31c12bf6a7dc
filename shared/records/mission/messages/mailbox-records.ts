/** Reads of the mailbox of one mission. */
import {
  EMPTY_MAILBOX,
  type MailboxRecord,
  type MessageRecord,
  noMessage,
  numberOfMessage,
  placeOfMessage,
} from "../../../lifecycle/mission/mailbox.ts";
import type { MessageSnapshot } from "../../../protocol/mission.ts";
import type { Bytes, Reader } from "../../../store/store.ts";
import { after, type TenantKeys } from "../../kv/keyspace.ts";
import { decodeRecord } from "../sealed-record.ts";

export interface MessageBody {
  readonly number: number;
  readonly text: string;
}

/** Throws CORRUPT. */
export async function readMailbox(reader: Reader, keys: TenantKeys, task: string): Promise<MailboxRecord> {
  const value = await reader.get(keys.mailbox(task));
  return value === undefined ? EMPTY_MAILBOX : decodeRecord<MailboxRecord>(value, { mission_id: task });
}

/** In the order of the numbers; null: there is no such message, or its place holds another one. Throws CORRUPT. */
export async function readMessages(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  numbers: readonly number[],
): Promise<(MessageRecord | null)[]> {
  const values = await reader.getMany(numbers.map((number) => keys.message(task, placeOfMessage(number))));
  return numbers.map((number, i) => {
    const message = decodedMessage(values[i], task);
    return message?.number === number ? message : null;
  });
}

/** Throws NOT_FOUND, CORRUPT. */
export async function requireMessage(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  id: string,
): Promise<MessageRecord> {
  const [message = null] = await readMessages(reader, keys, task, [numberOfMessage(id)]);
  if (message === null || message.message_id !== id) throw noMessage(id);
  return message;
}

/** The messages that are neither delivered nor cancelled, the oldest first. Throws CORRUPT. */
export async function readOpenMessages(
  reader: Reader,
  keys: TenantKeys,
  task: string,
): Promise<MessageRecord[]> {
  const { open } = await readMailbox(reader, keys, task);
  const found = await readMessages(
    reader,
    keys,
    task,
    open.map(({ number }) => number),
  );
  return found.filter((message) => message !== null);
}

/** The messages of a snapshot that are delivered, cancelled, or that can be queued again, by their ids. Throws CORRUPT. */
export async function readSnapshotMessages(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  snapshots: readonly MessageSnapshot[],
): Promise<ReadonlyMap<string, MessageRecord>> {
  // Orchestrators of other kinds write other ids.
  const numbers = snapshots
    .map(({ id }) => numberOfMessage(id))
    .filter((number) => Number.isSafeInteger(number) && number >= 1);
  const { open } = await readMailbox(reader, keys, task);
  const kept = new Set(open.map(({ number }) => number));
  const found = (await readMessages(reader, keys, task, numbers)).filter((message) => message !== null);
  return new Map(
    found
      .filter(({ state, number }) => state === "delivered" || state === "cancelled" || kept.has(number))
      .map((message) => [message.message_id, message]),
  );
}

/** The number of records read at once. */
const SLICE = 200;

/** All messages that the mission keeps, the newest first. Throws CORRUPT. */
export async function readAllMessages(
  reader: Reader,
  keys: TenantKeys,
  task: string,
): Promise<MessageRecord[]> {
  const range = keys.messages(task);
  const found: MessageRecord[] = [];
  for (let { begin } = range; ; ) {
    const { rows, more } = await reader.getRange({ begin, end: range.end }, { limit: SLICE });
    for (const { value } of rows) found.push(decodeRecord<MessageRecord>(value, { mission_id: task }));
    const last = rows.at(-1);
    if (!more || last === undefined) return found.sort((a, b) => b.number - a.number);
    begin = after(last.key);
  }
}

/** In the order of the messages. Throws CORRUPT for a body that is lost or of another message. */
export async function readBodies(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  messages: readonly MessageRecord[],
): Promise<string[]> {
  const values = await reader.getMany(
    messages.map(({ number }) => keys.messageBody(task, placeOfMessage(number))),
  );
  return messages.map(({ number, message_id }, i) => {
    const details = { mission_id: task, message_id };
    const body = decodeRecord<MessageBody>(values[i] ?? NOTHING, details);
    return body.number === number ? body.text : decodeRecord<MessageBody>(NOTHING, details).text;
  });
}

/** A value that cannot be read. */
const NOTHING = new Uint8Array(0);

function decodedMessage(value: Bytes | undefined, task: string): MessageRecord | null {
  return value === undefined ? null : decodeRecord<MessageRecord>(value, { mission_id: task });
}
