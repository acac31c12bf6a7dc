/** The table of a mailbox: what holds after any sequence of changes. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  EMPTY_MAILBOX,
  MailboxChanges,
  type MessageRecord,
  mailboxDueMs,
  messageId,
  missingRecipients,
  numberOfMessage,
  placeOfMessage,
} from "../../../../shared/lifecycle/mission/mailbox.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";

const AGENTS = ["a", "b", "c"] as const;
const agent = fc.constantFrom(...AGENTS);
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("send"),
      agent,
      to: fc.uniqueArray(agent, { minLength: 1 }),
      on: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ op: fc.constant("ack"), agent, which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("fail"), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("cancel"), which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("requeue"), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("subscribe"), agent, on: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("announce") }) },
);
type Step = { op: string; to?: string[]; agent?: string; which?: number; on?: boolean };

/** The messages by their places, as the store keeps them. */
type Places = Map<number, MessageRecord>;

function apply(box: MailboxChanges, places: Places, { op, to = [], which = 0, ...one }: Step): void {
  const kept = [...places.values()];
  const message = kept[which % Math.max(1, kept.length)];
  const isOpen = box.mailbox.open.find(({ number }) => number === message?.number);
  const draft = { from: "a", subject: "s", timeout_ms: 1_000, body: "", kind: "message" } as const;
  if (op === "send") box.send({ ...draft, from: one.agent!, to }, { isShared: one.on === true });
  else if (op === "announce") box.announce("fleet_checkpointed", "{}");
  else if (op === "subscribe") box.subscribe(one.agent!, one.on ? ["fleet_checkpointed"] : []);
  else if (message === undefined) return;
  else if (op === "ack" && message.to.includes(one.agent!)) box.acknowledge(message, one.agent!);
  else if (op === "cancel") box.cancel(message, message.from);
  else if (op === "fail" && isOpen?.state === "queued") box.fail(message);
  else if (op === "requeue" && isOpen !== undefined) box.requeue([message], "chk");
}

test("open messages are those that are not delivered, they keep their places, and their number is bounded", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      let mailbox = EMPTY_MAILBOX;
      let now = 0;
      const places: Places = new Map();
      for (const one of steps) {
        now += 100;
        const box = new MailboxChanges(mailbox, now);
        try {
          apply(box, places, one as Step);
        } catch (error) {
          if (!(error instanceof FleetError) || error.code !== "CONFLICT") throw error;
        }
        for (const change of box.changes) {
          const written =
            "message" in change ? [change.message] : "messages" in change ? change.messages : [];
          for (const message of written) {
            const place = placeOfMessage(message.number);
            const before = places.get(place);
            // The place of an open message has no other one.
            if (before !== undefined && before.number !== message.number)
              expect(mailbox.open.map(({ number }) => number)).not.toContain(before.number);
            places.set(place, message);
          }
          mailbox = change.after;
        }
        for (const { number, state, deadline } of mailbox.open) {
          const message = places.get(placeOfMessage(number));
          expect(message).toMatchObject({ number, state, deadline, message_id: messageId(number) });
        }
        const open = mailbox.open.map(({ number }) => number);
        for (const { number, state, to, receipts } of places.values()) {
          const isWhole = missingRecipients({ to, receipts }).length === 0;
          if (state !== "cancelled") expect(isWhole).toBe(state === "delivered");
          else expect(open).not.toContain(number);
          if (state === "queued") expect(open).toContain(number);
          if (state === "delivered") expect(open).not.toContain(number);
        }
        const counted = mailbox.open.filter(({ kind }) => kind !== "event");
        expect(counted.length).toBeLessThanOrEqual(LIMITS.open_messages_count_max);
        const queued = mailbox.open.filter(({ state }) => state === "queued");
        expect(mailboxDueMs(mailbox) === null).toBe(queued.length === 0);
      }
    }),
    { numRuns: 60 },
  );
});

test("ids and numbers name each other", () => {
  for (const number of [1, 42, 9_999, 10_000, 123_456])
    expect(numberOfMessage(messageId(number))).toBe(number);
});
