/**
 * The messages of an imported mission. The hash of each record is verified before. Here they must fit each other, because the mailbox is
 * read without further checks: a number that is used again would replace a message.
 */
import {
  type MailboxRecord,
  type MessageRecord,
  type OpenMessage,
  placeOfMessage,
} from "../../lifecycle/mission/mailbox.ts";
import { invalid } from "../../protocol/errors.ts";
import type { Tx } from "../../store/store.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { type MessageBody, readAllMessages } from "../mission/messages/mailbox-records.ts";
import { decodeRecord } from "../mission/sealed-record.ts";

/** Returns the open messages. Throws INVALID. */
export async function requireImportedMessages(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  { next, open }: MailboxRecord,
): Promise<MessageRecord[]> {
  const listed = new Map<number, OpenMessage>(open.map((one) => [one.number, one]));
  if (listed.size !== open.length) throw invalid("records", "each open message once");
  const messages = new Map<number, MessageRecord>();
  for (const message of await readAllMessages(tx, keys, task)) {
    const { number, state } = message;
    if (number >= next) throw invalid("records", `messages before number ${next}, the next one`, number);
    if (state === "queued" && !listed.has(number))
      throw invalid("records", `message ${number}, which is queued, among the open ones`);
    messages.set(number, message);
  }
  await requireBodies(tx, keys, task, [...messages.keys()]);
  return open.map(({ number, state }) => {
    const message = messages.get(number);
    if (message?.state === state) return message;
    throw invalid("records", `message ${number}, which is ${state}`, message?.state);
  });
}

async function requireBodies(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  numbers: readonly number[],
): Promise<void> {
  const values = await tx.getMany(numbers.map((number) => keys.messageBody(task, placeOfMessage(number))));
  for (const [i, number] of numbers.entries()) {
    const value = values[i];
    const body = value && decodeRecord<MessageBody>(value, { mission_id: task });
    if (body?.number !== number) throw invalid("records", `the body of message ${number}`, body?.number);
  }
}
