/** Scenarios, one for each fault, that show what its clients see of it. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Bus } from "../../../../shared/bus/bus.ts";
import {
  ECHO,
  messageText,
  numbered,
  outcomeOf,
  outgoing,
  type ScenarioFacts,
  STREAM,
  type Stage,
  statusesOf,
  tally,
  until,
  WORK,
} from "./stage.ts";

export type FaultScenario = (stage: Stage) => Promise<ScenarioFacts>;

const stored = (bus: Bus, subject: string, value: string, timeoutMs = 20_000) =>
  bus.publishDurable(subject, outgoing(value), { messageId: `${subject} ${value}`, timeoutMs });

async function countOf(bus: Bus, { name }: { name: string }): Promise<number> {
  return (await bus.stream(name).state()).messages;
}

const consumer = (ackWaitMs: number, stream = STREAM.name) => ({
  stream,
  durable: "scenario",
  maxAckPending: 1,
  ackWaitMs,
});

/** Requests one after the other, each with a short wait. */
const requests: FaultScenario = async ({ connect }) => {
  const [caller, service] = [await connect("caller"), await connect("service")];
  let handled = 0;
  await service.serve("t.echo", ECHO, async ({ body }) => {
    handled += 1;
    return { body };
  });
  const outcomes: string[] = [];
  for (const n of numbered(60))
    outcomes.push(await outcomeOf(caller.request("t.echo", outgoing(n), { timeoutMs: 200 })));
  return { ...tally(outcomes), handled };
};

/** Publishes each message until it is confirmed, with so little time that one attempt fits. */
const publishing: FaultScenario = async ({ connect }) => {
  const bus = await connect("publisher");
  await bus.reconcileStreams([STREAM]);
  const outcomes: string[] = [];
  let duplicates = 0;
  for (const n of numbered(40)) {
    for (let outcome = ""; outcome !== "ok"; outcomes.push(outcome)) {
      const publish = stored(bus, "t.stored.a", n, 300).then(
        ({ duplicate }) => (duplicates += Number(duplicate)),
      );
      outcome = await outcomeOf(publish);
    }
  }
  return { ...tally(outcomes), duplicates, stored: await countOf(bus, STREAM) };
};

/** A handler that needs 300 ms for each message. */
const consuming: FaultScenario = async ({ connect }) => {
  const bus = await connect("consumer");
  await bus.reconcileStreams([WORK]);
  for (const n of numbered(20)) await stored(bus, "t.work.a", n);
  const seen: string[] = [];
  let redelivered = 0;
  const stop = await bus.consume(consumer(1_000, WORK.name), async (message) => {
    seen.push(messageText(message));
    redelivered += Number(message.redelivered);
    await sleep(300);
  });
  await until(async () => (await countOf(bus, WORK)) === 0);
  await stop();
  const inOrder = seen.every((value, at) => at === 0 || Number(value) >= Number(seen[at - 1]));
  return { messages: new Set(seen).size, deliveries: seen.length, redelivered, inOrder };
};

/** One subscriber of two subjects, to each of which two connections send in turn. */
const overtaking: FaultScenario = async ({ connect }) => {
  const [one, other, subscriber] = [
    await connect("one"),
    await connect("other"),
    await connect("subscriber"),
  ];
  const [all, bySource]: [string[], Record<string, number[]>] = [[], {}];
  for (const subject of ["t.left", "t.right"])
    await subscriber.subscribe(subject, (message) => {
      const [sender = "", n] = messageText(message).split(" ");
      all.push(n!);
      const source = `${subject} ${sender}`;
      bySource[source] = [...(bySource[source] ?? []), Number(n)];
    });
  for (const n of numbered(200)) {
    const [bus, name] = Number(n) % 4 < 2 ? [one, "one"] : [other, "other"];
    bus.publish(Number(n) % 2 === 0 ? "t.left" : "t.right", outgoing(`${name} ${n}`));
    await sleep(1);
  }
  await sleep(1_000);
  const overtaken = all.filter((n, at) => at > 0 && Number(n) < Number(all[at - 1])).length;
  const inOrder = Object.values(bySource).every((list) =>
    list.every((n, at) => at === 0 || n > list[at - 1]!),
  );
  return { arrived: all.length, sources: Object.keys(bySource).length, overtaken, inOrder };
};

/** A caller whose connection has a fault in second 2. One request of each second, and one that is open all the time. */
const callerFault: FaultScenario = async ({ connect }) => {
  const [service, caller] = [await connect("service"), await connect("caller")];
  await service.serve("t.echo", ECHO, async ({ body }) => ({ body }));
  await service.serve("t.held", ECHO, () => new Promise(() => {}));
  const statuses = statusesOf(caller);
  const held = outcomeOf(caller.request("t.held", outgoing(""), { timeoutMs: 60_000 }));
  const outcomes: string[] = [];
  for (let second = 0; second < 20; second += 1) {
    outcomes.push(await outcomeOf(caller.request("t.echo", outgoing(""), { timeoutMs: 900 })));
    await sleep(1_000 - (performance.now() % 1_000));
  }
  return { statuses, outcomes: tally(outcomes), last: outcomes.at(-1), held: await held };
};

/** A subscriber that reads nothing from second 1 on while 2,000 messages are sent, and one that reads. */
const slowSubscriber: FaultScenario = async ({ connect }) => {
  const [sender, slow, quick] = [await connect("sender"), await connect("slow"), await connect("quick")];
  const seen = { slow: [] as number[], quick: [] as number[] };
  await slow.subscribe("t.many", (message) => seen.slow.push(Number(messageText(message))));
  await quick.subscribe("t.many", (message) => seen.quick.push(Number(messageText(message))));
  const statuses = statusesOf(slow);
  for (const n of numbered(2_000)) {
    sender.publish("t.many", outgoing(n));
    await sleep(2);
  }
  await sleep(5_000);
  const inOrder = seen.slow.every((n, at) => at === 0 || n > seen.slow[at - 1]!);
  return {
    quick: seen.quick.length,
    slow: seen.slow.length,
    newest: seen.slow.at(-1),
    inOrder,
    statuses: statuses.map(({ status }) => status),
  };
};

/** A restart in second 5. The messages before it are settled by then. */
const restarting: FaultScenario = async ({ connect }) => {
  const [bus, other] = [await connect("publisher"), await connect("subscriber")];
  await bus.reconcileStreams([STREAM, WORK]);
  const heard: string[] = [];
  await other.subscribe("t.core", (message) => heard.push(messageText(message)));
  const seen: { value: string; redelivered: boolean }[] = [];
  for (const stream of [STREAM, WORK])
    await other.consume(consumer(30_000, stream.name), async (message) => {
      seen.push({ value: `${stream.name} ${messageText(message)}`, redelivered: message.redelivered });
    });
  for (const n of numbered(5)) {
    await stored(bus, "t.stored.a", n);
    await stored(bus, "t.work.a", n);
  }
  await sleep(10_000 - performance.now());
  bus.publish("t.core", outgoing("after"));
  const duplicates = {
    stored: (await stored(bus, "t.stored.a", "0")).duplicate,
    work: (await stored(bus, "t.work.a", "0")).duplicate,
  };
  await sleep(5_000);
  const counts = tally(seen.map(({ value }) => value));
  const again = Object.entries(counts).filter(([, count]) => count > 1);
  return {
    kept: await countOf(bus, STREAM),
    heard,
    duplicates,
    again: again.map(([value]) => value),
    redelivered: seen.filter(({ redelivered }) => redelivered).length,
  };
};

/** The same message four minutes after it was stored, and after another two. */
const repeating: FaultScenario = async ({ connect }) => {
  const bus = await connect("publisher");
  await bus.reconcileStreams([STREAM]);
  const minute = 60_000;
  const duplicates = [(await stored(bus, "t.stored.a", "0")).duplicate];
  for (const minutes of [4, 2]) {
    await sleep(minutes * minute);
    duplicates.push((await stored(bus, "t.stored.a", "0")).duplicate);
  }
  return { duplicates, stored: await countOf(bus, STREAM) };
};

export const SCENARIOS = {
  requests,
  publishing,
  consuming,
  overtaking,
  callerFault,
  slowSubscriber,
  restarting,
  repeating,
} as const satisfies Readonly<Record<string, FaultScenario>>;
