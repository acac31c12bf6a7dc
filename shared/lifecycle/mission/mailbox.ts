/**
 * The mailbox of a mission, and the table of the states of its messages. Pure: no store, no clock.
 *
 *      queued ──each recipient acknowledges──▶ delivered;  queued ──deadline──▶ failed
 *      queued, failed ──a resumption──▶ queued;  failed ──each recipient acknowledges──▶ delivered
 *      queued, failed ──the sender, the coordinator or a person──▶ cancelled
 *
 * A message has a number and a place. The place of a message that is over is used again, so a mission keeps a bounded
 * number of messages, and a record is never removed, only replaced. The mailbox itself lists only the open messages,
 * so its size does not grow with the number of messages.
 */
import { FleetError } from "../../protocol/errors.ts";
import { groupBy } from "../../protocol/group-by.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { MessageSnapshot } from "../../protocol/mission.ts";
import type { MailboxEvent, MessageKind, MessageState } from "../../protocol/mission-messages.ts";
import { FLEET_SENDER } from "../../protocol/principal.ts";

interface Receipt {
  readonly agent_id: string;
  readonly at: string;
}

export interface MessageRecord {
  readonly message_id: string;
  readonly number: number;
  readonly kind: MessageKind;
  readonly from: string;
  readonly to: readonly string[];
  readonly subject: string;
  readonly sent_at: string;
  readonly timeout_ms: number;
  readonly deadline: string;
  readonly state: MessageState;
  readonly receipts: readonly Receipt[];
  readonly ended_at: string | null;
  readonly requeues: number;
}

/** A message that is neither delivered nor cancelled. */
export interface OpenMessage {
  readonly number: number;
  readonly kind: MessageKind;
  /** Absent in the records of earlier versions. */
  readonly from?: string;
  readonly state: "queued" | "failed";
  readonly deadline: string;
  /** The size of its snapshot as JSON. */
  readonly bytes: number;
}

export interface MailboxRecord {
  /** The number of the next message. */
  readonly next: number;
  /** Ordered by number. */
  readonly open: readonly OpenMessage[];
  readonly subscribers: readonly { readonly agent_id: string; readonly events: readonly MailboxEvent[] }[];
  /** The locks about which their holders got a message. */
  readonly notices: readonly string[];
}

export const EMPTY_MAILBOX: MailboxRecord = { next: 1, open: [], subscribers: [], notices: [] };

export type MessageDraft = Pick<MessageRecord, "kind" | "from" | "to" | "subject" | "timeout_ms"> & {
  readonly body: string;
};

export interface SendRules {
  /** The sender has only its share of the room. */
  readonly isShared: boolean;
}

type MailboxAction =
  | { readonly op: "message_send"; readonly message: MessageRecord; readonly body: string }
  | {
      readonly op: "message_ack" | "message_cancel";
      readonly message: MessageRecord;
      readonly agent_id: string;
    }
  | { readonly op: "message_fail"; readonly message: MessageRecord }
  | {
      readonly op: "message_requeue";
      readonly messages: readonly MessageRecord[];
      readonly checkpoint_id: string;
    }
  | {
      readonly op: "mailbox_subscribe";
      readonly agent_id: string;
      readonly events: readonly MailboxEvent[];
    };

/** One transition, and the mailbox after it. */
export type MailboxChange = MailboxAction & { readonly after: MailboxRecord };

const DIGITS = 4;

export const messageId = (number: number): string => `msg-${String(number).padStart(DIGITS, "0")}`;

export const numberOfMessage = (id: string): number => Number(id.slice("msg-".length));

export const placeOfMessage = (number: number): number => number % LIMITS.mission_messages_count_max;

export const missingRecipients = ({ to, receipts }: Pick<MessageRecord, "to" | "receipts">): string[] =>
  to.filter((agent) => !receipts.some(({ agent_id }) => agent_id === agent));

/** The changes of one transaction. */
export class MailboxChanges {
  readonly changes: MailboxChange[] = [];
  readonly #nowMs: number;
  #mailbox: MailboxRecord;

  constructor(mailbox: MailboxRecord, nowMs: number) {
    this.#mailbox = mailbox;
    this.#nowMs = nowMs;
  }

  get mailbox(): MailboxRecord {
    return this.#mailbox;
  }

  /** Throws CONFLICT while too many messages of the mission, or of the sender, are open. Failed ones make room for a new one. */
  send({ body, ...draft }: MessageDraft, { isShared }: SendRules = { isShared: false }): MessageRecord {
    const number = this.#freeNumber();
    const message: MessageRecord = {
      ...draft,
      message_id: messageId(number),
      number,
      sent_at: this.#at(0),
      deadline: this.#at(draft.timeout_ms),
      state: "queued",
      receipts: [],
      ended_at: null,
      requeues: 0,
    };
    const open = withRoom(this.#mailbox.open, message, isShared);
    this.#push({ op: "message_send", message, body }, { next: number + 1, open: opened(open, message) });
    return message;
  }

  /** The subscribers of an event get it as a message. null: it has none. */
  announce(type: MailboxEvent, body: string): MessageRecord | null {
    const to = this.subscribersOf(type);
    if (to.length === 0) return null;
    const timeout_ms = LIMITS.mailbox_event_ms;
    return this.send({ kind: "event", from: FLEET_SENDER, to, subject: type, timeout_ms, body });
  }

  subscribersOf(type: MailboxEvent): string[] {
    return this.#mailbox.subscribers.flatMap(({ agent_id, events }) =>
      events.includes(type) ? [agent_id] : [],
    );
  }

  /** The oldest event, which must end before there is room for another one; null: there is room. */
  get eventInTheWay(): OpenMessage | null {
    const events = this.#mailbox.open.filter(({ kind }) => kind === "event");
    return events.length < LIMITS.open_events_count_max ? null : (events[0] ?? null);
  }

  /** Throws NOT_FOUND for another agent than a recipient. A repeated receipt changes nothing. */
  acknowledge(message: MessageRecord, agent: string): MessageRecord {
    if (!message.to.includes(agent)) throw noMessage(message.message_id);
    const isKnown = message.receipts.some(({ agent_id }) => agent_id === agent);
    const receipts = isKnown ? message.receipts : [...message.receipts, { agent_id: agent, at: this.#at(0) }];
    const isWhole = missingRecipients({ to: message.to, receipts }).length === 0;
    const isNew = isWhole && message.state !== "delivered" && message.state !== "cancelled";
    const after: MessageRecord = {
      ...message,
      receipts,
      ...(isNew && { state: "delivered" as const, ended_at: this.#at(0) }),
    };
    const { open } = this.#mailbox;
    this.#push(
      { op: "message_ack", message: after, agent_id: agent },
      { open: isWhole ? without(open, message.number) : open },
    );
    return after;
  }

  /** Throws CONFLICT for a delivered message. A repeated cancellation changes nothing. */
  cancel(message: MessageRecord, agent_id: string): MessageRecord {
    const { message_id, state, number } = message;
    if (state === "delivered")
      throw new FleetError("CONFLICT", "the message is delivered", { details: { message_id } });
    const ended = { state: "cancelled" as const, ended_at: this.#at(0) };
    const after = state === "cancelled" ? message : { ...message, ...ended };
    this.#push(
      { op: "message_cancel", message: after, agent_id },
      { open: without(this.#mailbox.open, number) },
    );
    return after;
  }

  /** A subscriber that does not acknowledge an event in time gets no further ones, and a notice of that. */
  fail(message: MessageRecord): MessageRecord {
    const failed: MessageRecord = { ...message, state: "failed", ended_at: this.#at(0) };
    const rest = without(this.#mailbox.open, message.number);
    // A resumption queues only messages of agents and people again.
    const open = message.kind === "message" ? opened(rest, failed) : rest;
    this.#push({ op: "message_fail", message: failed }, { open });
    if (message.kind !== "event") return failed;
    for (const agent of missingRecipients(message)) {
      if (this.#mailbox.subscribers.some(({ agent_id }) => agent_id === agent))
        this.#endSubscription(agent, message);
    }
    return failed;
  }

  #endSubscription(agent: string, { message_id, subject }: MessageRecord): void {
    this.subscribe(agent, []);
    const body = `You did not acknowledge ${message_id} (${subject}) in time. Subscribe again to get further events.`;
    const to = { from: FLEET_SENDER, to: [agent], timeout_ms: LIMITS.message_timeout_ms_max };
    this.notify(`subscription ${agent} ${message_id}`, {
      ...to,
      subject: "Your subscription has ended",
      body,
    });
  }

  requeue(messages: readonly MessageRecord[], checkpoint_id: string): readonly MessageRecord[] {
    const queued = messages.map(
      (message): MessageRecord => ({
        ...message,
        state: "queued",
        ended_at: null,
        deadline: this.#at(message.timeout_ms),
        requeues: message.requeues + 1,
      }),
    );
    const open = queued.reduce(
      (rest, message) => opened(without(rest, message.number), message),
      this.#mailbox.open,
    );
    this.#push({ op: "message_requeue", messages: queued, checkpoint_id }, { open });
    return queued;
  }

  /** Replaces the subscription of an agent. Throws CONFLICT if too many have one. */
  subscribe(agent_id: string, events: readonly MailboxEvent[]): void {
    const others = this.#mailbox.subscribers.filter((one) => one.agent_id !== agent_id);
    if (events.length > 0 && others.length >= LIMITS.mailbox_subscribers_count_max) {
      throw new FleetError("CONFLICT", "too many agents subscribe to the events of the mission", {
        details: { subscribers: others.length },
      });
    }
    const subscribers = events.length === 0 ? others : [...others, { agent_id, events }];
    this.#push({ op: "mailbox_subscribe", agent_id, events }, { subscribers });
  }

  /** null: the recipients have a message about this already, or there is no room. */
  notify(notice: string, draft: Omit<MessageDraft, "kind">): MessageRecord | null {
    const before = this.#mailbox;
    if (before.notices.includes(notice)) return null;
    const notices = [...before.notices, notice].slice(-LIMITS.mailbox_notices_count_max);
    this.#mailbox = { ...before, notices };
    try {
      return this.send({ ...draft, kind: "notice" });
    } catch (error) {
      this.#mailbox = before;
      if (error instanceof FleetError && error.code === "CONFLICT") return null;
      throw error;
    }
  }

  /** Open messages keep their places. */
  #freeNumber(): number {
    const { next, open } = this.#mailbox;
    const taken = new Set(open.map(({ number }) => placeOfMessage(number)));
    let number = next;
    while (taken.has(placeOfMessage(number))) number += 1;
    return number;
  }

  #push(action: MailboxAction, change: Partial<MailboxRecord>): void {
    this.#mailbox = { ...this.#mailbox, ...change };
    this.changes.push({ ...action, after: this.#mailbox });
  }

  #at(afterMs: number): string {
    return new Date(this.#nowMs + afterMs).toISOString();
  }
}

export function noMessage(message_id: string): FleetError {
  return new FleetError("NOT_FOUND", "the agent has no such message", { details: { message_id } });
}

type Open = readonly OpenMessage[];

const without = (open: Open, number: number): Open => open.filter((one) => one.number !== number);

function opened(open: Open, message: MessageRecord): Open {
  const { number, kind, from, state, deadline } = message;
  const one = { number, kind, from, state: state === "failed" ? state : "queued", deadline } as const;
  return [...open, { ...one, bytes: bytesOf(message) }].sort((a, b) => a.number - b.number);
}

const bytesOf = (message: MessageRecord): number =>
  Buffer.byteLength(JSON.stringify(messageSnapshot(message)));

interface Room {
  readonly count: number;
  readonly bytes: number;
}

const ROOM_OF_MISSION: Room = {
  count: LIMITS.open_messages_count_max,
  bytes: LIMITS.open_messages_bytes_max,
};
const ROOM_OF_SENDER: Room = {
  count: LIMITS.sender_messages_count_max,
  bytes: LIMITS.sender_messages_bytes_max,
};

const fits = (open: Open, bytes: number, room: Room): boolean =>
  open.length < room.count && open.reduce((sum, one) => sum + one.bytes, bytes) <= room.bytes;

/** Throws CONFLICT. Events have room of their own. */
function withRoom(open: Open, message: MessageRecord, isShared: boolean): Open {
  const { kind, from } = message;
  if (kind === "event") return open;
  const bytes = bytesOf(message);
  for (let rest = open; ; ) {
    const all = rest.filter((one) => one.kind !== "event");
    const own = isShared ? all.filter((one) => one.from === from) : [];
    const isOwnFull = !fits(own, bytes, ROOM_OF_SENDER);
    if (!isOwnFull && fits(all, bytes, ROOM_OF_MISSION)) return rest;
    const failed = isOwnFull ? own.find(({ state }) => state === "failed") : oldestOfMostFailed(all);
    if (failed === undefined) throw isOwnFull ? fullOf("the sender", own, from) : fullOf("the mission", all);
    rest = without(rest, failed.number);
  }
}

/** The sender with the most failed messages makes room, so that no other agent can displace those of the rest. */
function oldestOfMostFailed(open: Open): OpenMessage | undefined {
  const failed = groupBy(
    open.filter(({ state }) => state === "failed"),
    ({ from }) => from,
  );
  return [...failed.values()].sort((a, b) => b.length - a.length)[0]?.[0];
}

function fullOf(whose: "the mission" | "the sender", open: Open, from?: string): FleetError {
  const bytes = open.reduce((sum, one) => sum + one.bytes, 0);
  return new FleetError("CONFLICT", `too many messages of ${whose} are not delivered`, {
    details: { open: open.length, bytes, ...(from !== undefined && { from }) },
  });
}

/** The time at which the next message fails; null: none is queued. */
export function mailboxDueMs({ open }: Pick<MailboxRecord, "open">): number | null {
  const times = open.flatMap(({ state, deadline }) => (state === "queued" ? [Date.parse(deadline)] : []));
  return times.length === 0 ? null : Math.min(...times);
}

/** `MessageSnapshot` of seed 002. */
export function messageSnapshot({
  message_id,
  from,
  to,
  subject,
  sent_at,
  state,
}: MessageRecord): MessageSnapshot {
  const delivered = state === "delivered";
  const failed = state === "failed" && { failed: true };
  return { id: message_id, from, to: [...to], subject, sent_at, delivered, ...failed };
}

export const undeliveredText = (message: MessageRecord): string =>
  `Message ${message.message_id} of ${message.from}, "${message.subject}", was not acknowledged in time by ${missingRecipients(message).join(", ")}`;
