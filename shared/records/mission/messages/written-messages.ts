/** The records of a mailbox that a transition writes. */
import {
  type MailboxChange,
  type MailboxRecord,
  type MessageRecord,
  placeOfMessage,
} from "../../../lifecycle/mission/mailbox.ts";
import type { TenantKeys } from "../../kv/keyspace.ts";
import { bodyName, MAILBOX_NAME, messageName, type NamedRecord } from "../sealed-record.ts";
import type { MessageBody } from "./mailbox-records.ts";

export interface WrittenMessages {
  readonly mailbox?: MailboxRecord;
  readonly messages?: readonly MessageRecord[];
  readonly bodies?: readonly MessageBody[];
}

export function namedMessages(
  keys: TenantKeys,
  task: string,
  { mailbox, messages = [], bodies = [] }: WrittenMessages,
): NamedRecord[] {
  return [
    ...(mailbox === undefined ? [] : [{ name: MAILBOX_NAME, key: keys.mailbox(task), value: mailbox }]),
    ...messages.map((message) => {
      const place = placeOfMessage(message.number);
      return { name: messageName(place), key: keys.message(task, place), value: message };
    }),
    ...bodies.map((body) => {
      const place = placeOfMessage(body.number);
      return { name: bodyName(place), key: keys.messageBody(task, place), value: body };
    }),
  ];
}

export function writtenMessages(change: MailboxChange): Pick<WrittenMessages, "messages" | "bodies"> {
  switch (change.op) {
    case "message_send": {
      const { message, body: text } = change;
      return { messages: [message], bodies: [{ number: message.number, text }] };
    }
    case "message_ack":
    case "message_cancel":
    case "message_fail":
      return { messages: [change.message] };
    case "message_requeue":
      return { messages: change.messages };
    case "mailbox_subscribe":
      return {};
  }
}
