/** All faults at once, and the promises of the bus that hold nevertheless. */
import { setTimeout as sleep } from "node:timers/promises";
import type { BusFaults } from "./plan.ts";
import type { FaultScenario } from "./scenarios.ts";
import { ECHO, messageText, numbered, outcomeOf, outgoing, STREAM, tally, until, WORK } from "./stage.ts";

export const MIXTURE: BusFaults = {
  hopMs: { min: 1, max: 8 },
  slowConsumerMax: 200,
  lateMessage: 0.05,
  lostMessage: 0.02,
  lostConfirmation: 0.1,
  lostAcknowledgement: 0.1,
  earlyRedelivery: 0.05,
  forgottenAcknowledgements: 0.5,
  timed: [
    { kind: "cut", at: 2_000, connection: "publisher" },
    { kind: "partition", at: 3_000, connection: "consumer", forMs: 8_000 },
    { kind: "restart", at: 14_000, forMs: 700 },
    { kind: "stall", at: 17_000, connection: "caller", forMs: 2_000 },
    { kind: "partition", at: 20_000, connection: "publisher", forMs: 1_500 },
    { kind: "restart", at: 24_000, forMs: 50 },
  ],
};

const TASKS = ["a", "b", "c"];
const COUNT = 60;

/** Every stored message is stored once and in order, and is handled at least once. */
export const mixture: FaultScenario = async ({ connect, server }) => {
  const [publisher, consumer, caller] = [
    await connect("publisher"),
    await connect("consumer"),
    await connect("caller"),
  ];
  await until(
    async () => (await publisher.reconcileStreams([STREAM, WORK]).catch(() => "again")) !== "again",
  );
  const handled: string[] = [];
  for (const task of TASKS) {
    const options = {
      stream: WORK.name,
      durable: task,
      filters: [`t.work.${task}`],
      maxAckPending: 1,
      ackWaitMs: 2_000,
    };
    const begin = () => consumer.consume(options, async (message) => void handled.push(messageText(message)));
    await until(async () => (await outcomeOf(begin())) === "ok");
  }
  await consumer.serve("t.echo", ECHO, async ({ body }) => ({ body }));
  const outcomes: string[] = [];
  const ask = async () => {
    for (let n = 0; n < COUNT; n += 1) {
      outcomes.push(await outcomeOf(caller.request("t.echo", outgoing(""), { timeoutMs: 400 })));
      await sleep(400);
    }
  };
  const publish = async (task: string) => {
    for (const n of numbered(COUNT)) {
      for (const subject of [`t.stored.${task}`, `t.work.${task}`]) {
        const send = () =>
          publisher.publishDurable(subject, outgoing(`${task} ${n}`), {
            messageId: `${subject} ${n}`,
            timeoutMs: 3_000,
          });
        await until(async () => (await outcomeOf(send())) === "ok");
      }
      await sleep(300);
    }
  };
  await Promise.all([ask(), ...TASKS.map(publish)]);
  server.heal();
  await until(
    async () =>
      (
        await consumer
          .stream(WORK.name)
          .state()
          .catch(() => null)
      )?.messages === 0,
  );
  const kept = await consumer.stream(STREAM.name).read(1, 1_000);
  const lists = TASKS.map((task) => kept.map(messageText).filter((value) => value.startsWith(task)));
  return {
    outcomes: tally(outcomes),
    isComplete: lists.every(
      (list, i) =>
        list.join() ===
        numbered(COUNT)
          .map((n) => `${TASKS[i]} ${n}`)
          .join(),
    ),
    handled: new Set(handled).size,
    deliveries: handled.length,
  };
};
