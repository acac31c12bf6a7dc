/**
 * The queue, on a real nats-server and a real store with outages: commands are accepted and answered at once,
 * applied once and in order after the outage, and never lost, also if the queue is full.
 */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Message } from "../../../shared/bus/bus.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { HEADERS, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { creation, type InProcessFleet, openInProcessWriter } from "../../harness/in-process-fleet.ts";
import { input } from "../../harness/records/records.ts";

type Json = Record<string, unknown>;

/** A queue of one task is applied one command after the other: a busy machine applies five of them in a second. */
const LONG = { timeout: 180_000, interval: 1_000 };
const LAST_MS = 400_000;

let writer: InProcessFleet;

beforeEach(async () => {
  writer = await openInProcessWriter();
});
afterEach(() => writer.close());

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!;

describe("the queue", () => {
  test(
    "refuses commands with a clear error when it is full, and loses none",
    async () => {
      writer.outage = "refuses";
      const body = (n: number) => creation({ checkpoint: input({ goal: `${n}`.padEnd(400_000, "x") }) });
      const queued: string[] = [];
      let refusal: Json | undefined;
      const fill = async (task: string, first: number): Promise<void> => {
        for (let n = first; refusal === undefined && n < 400; n += 7) {
          const one = body(n);
          const answer = await writer.send("create", one, { task });
          if (answer.status === "queued") queued.push(one.command_id as string);
          else refusal = answer.error as Json;
        }
      };
      await Promise.all(Array.from({ length: 7 }, (_, n) => fill(`task-${n}`, n)));
      expect(refusal).toMatchObject({
        code: "UNAVAILABLE",
        retryable: true,
        details: { queue: "stream_full" },
        retry_after_ms: expect.any(Number),
      });
      expect(await writer.depth()).toBe(queued.length);
      writer.outage = "none";
      await writer.drained();
      const found = await Promise.all(Array.from({ length: 7 }, (_, n) => writer.applied(`task-${n}`)));
      expect(found.flat().sort()).toEqual([...queued].sort());
    },
    LAST_MS,
  );

  test("accepts commands that agents publish themselves, and answers only to their own inboxes", async () => {
    const answers: Json[] = [];
    const inbox = "_INBOX.default.agent-1.queue.1";
    await writer.bus.subscribe("_INBOX.>", ({ subject, body }: Message) => {
      if (!/queue/.test(subject)) return;
      answers.push({ subject, ...(JSON.parse(Buffer.from(body).toString()) as Json) });
    });
    const [own, others, foreign] = [creation(), creation(), creation()];
    await writer.enqueue("create", own, { headers: { [HEADERS.replyTo]: inbox } });
    await writer.enqueue("create", others, {
      headers: { [HEADERS.replyTo]: "_INBOX.default.agent-2.queue.1" },
    });
    await writer.enqueue("create", foreign, {
      headers: { [HEADERS.replyTo]: "_INBOX.acme.agent-1.queue.1" },
    });
    await writer.enqueue("link", { command_id: uuidv7() }, { headers: { [HEADERS.replyTo]: inbox } });
    await writer.drained();
    expect(await writer.applied()).toEqual([own.command_id, others.command_id, foreign.command_id]);
    await expect.poll(() => answers).toHaveLength(1);
    expect(answers).toMatchObject([{ subject: inbox, status: "committed", command_id: own.command_id }]);
  });
});

test(
  "a repetition is refused only once no copy of it can be in the queue",
  async () => {
    await writer.send("take", { command_id: uuidv7() }, { agent: "agent-2", task: "owned" });
    const command = creation();
    const repeat = () =>
      writer.send("create", command, { task: "owned", headers: { [HEADERS.repeated]: "1" } });
    const codeOf = ({ error }: Json) => (error as Json | undefined)?.code;
    await writer.enqueueAll(
      "create",
      Array.from({ length: 300 }, () => creation()),
    );
    expect(await repeat()).toMatchObject({
      error: { code: "UNAVAILABLE", details: { refused: "FENCED" }, retry_after_ms: expect.any(Number) },
    });
    expect(codeOf(await writer.send("create", command, { task: "owned" }))).toBe("FENCED");
    await writer.drained();
    expect(codeOf(await repeat())).toBe("FENCED");
    // A copy that was applied is found, although the task has an owner now.
    const [first, second] = [creation(), creation()];
    await writer.enqueue("create", first, { task: "free" });
    await writer.drained();
    await writer.send("take", { command_id: uuidv7() }, { agent: "agent-2", task: "free" });
    const again = (body: Json) =>
      writer.send("create", body, { task: "free", headers: { [HEADERS.repeated]: "1" } });
    expect(await again(first)).toMatchObject({ status: "committed", replayed: true });
    expect(codeOf(await again(second))).toBe("FENCED");
  },
  LAST_MS,
);

test("a fork is never queued: it is refused while the store is away, and applied once after the outage", async () => {
  const source = creation();
  await writer.send("create", source, { task: "source" });
  writer.outage = "refuses";
  const fork = { command_id: uuidv7(), source_task_id: "source" };
  expect(await writer.send("fork", fork, { task: "forked" })).toMatchObject({
    error: { code: "UNAVAILABLE", details: { op: "fork" } },
  });
  expect(await writer.depth()).toBe(0);
  writer.outage = "none";
  await expect
    .poll(() => writer.send("fork", fork, { task: "forked" }), { timeout: 30_000 })
    .toMatchObject({ status: "committed", forked_from: { checkpoint_id: source.command_id } });
});

test("of the commands of missions a checkpoint is queued, and applied once with the state of then", async () => {
  const send = (op: "mission_start" | "sortie_add" | "mission_checkpoint", body: Json) =>
    writer.send(op, { command_id: uuidv7(), ...body }, { task: "msn-1" });
  await send("mission_start", { title: "Add a login" });
  writer.outage = "refuses";
  const recorded = { command_id: uuidv7(), note: "Before the refactoring" };
  const { command_id: checkpoint_id } = recorded;
  const queued = { status: "queued", checkpoint_id, task_id: "msn-1" };
  expect(await send("mission_checkpoint", recorded)).toMatchObject(queued);
  expect(await send("mission_checkpoint", recorded)).toMatchObject(queued);
  expect(await send("sortie_add", { sorties: [{ title: "the form" }] })).toMatchObject({
    error: { code: "UNAVAILABLE", details: { op: "sortie_add" } },
  });
  writer.outage = "none";
  await writer.drained();
  expect(await writer.applied("msn-1")).toEqual([checkpoint_id]);
  expect(await send("mission_checkpoint", recorded)).toMatchObject({ status: "committed", replayed: true });
});

test("a trace continues through the queue to the event", async () => {
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const headers = { traceparent: `00-${trace}-b7ad6b7169203331-01` };
  const events: Json[] = [];
  await writer.bus.subscribe(SUBJECTS.everyEvent, ({ body }) => {
    events.push(JSON.parse(Buffer.from(body).toString()) as Json);
  });
  writer.outage = "refuses";
  const [asked, published] = [creation(), creation()];
  expect(await writer.send("create", asked, { headers })).toMatchObject({ status: "queued" });
  await writer.enqueue("create", published, { headers });
  const queue = writer.bus.stream(STREAMS.queue);
  for (const seq of [1, 2]) expect((await queue.get(seq))?.headers.get("traceparent")).toContain(trace);
  writer.outage = "none";
  await writer.drained();
  await expect.poll(() => events, { timeout: 30_000 }).toHaveLength(2);
  for (const event of events) expect(event.traceparent).toContain(trace);
});

describe("order", () => {
  test("a command is queued behind the queued one that it names", async () => {
    const [first, second, third] = [creation(), creation(), creation()];
    second.after = first.command_id;
    third.after = second.command_id;
    writer.outage = "refuses";
    await writer.send("create", creation());
    await writer.opened();
    await writer.stopAll();
    writer.outage = "none";
    // `first` is in the queue while no writer consumes it, and the new writer gets requests before it has a
    // partition.
    await writer.enqueue("create", first);
    expect(await writer.depth()).toBe(2);
    await writer.startWriter();
    expect(["queued", "committed"]).toContain((await writer.send("create", second)).status);
    expect(["queued", "committed"]).toContain((await writer.send("create", third)).status);
    await writer.drained();
    expect((await writer.applied()).slice(1)).toEqual([first, second, third].map((one) => one.command_id));
    const free = creation({ after: first.command_id });
    expect(await writer.send("create", free)).toMatchObject({ status: "committed" });
  });

  test("a busy agent writes directly again after an outage, also behind a dead letter", async () => {
    writer.outage = "refuses";
    await writer.send("create", creation());
    await writer.opened();
    const dead = creation({ expected_version: 99 });
    expect(await writer.send("create", dead)).toMatchObject({ status: "queued" });
    writer.outage = "none";
    let after = dead.command_id;
    const ways: unknown[] = [];
    while (ways.at(-1) !== "committed") {
      const next = creation({ after });
      ways.push((await writer.send("create", next)).status);
      after = next.command_id;
    }
    expect(await writer.letters()).toMatchObject([{ reason: "conflict", command_id: dead.command_id }]);
  });

  test(
    "while the queue is long, a command behind a queued one is refused with a retry time",
    async () => {
      await writer.stopAll();
      // Twice the length from which a queue is long: some are applied before the first answer.
      const waiting = Array.from({ length: 2 * LIMITS.queue_long_count }, () => creation());
      await writer.enqueueAll("create", waiting);
      await writer.startWriter();
      const next = creation({ after: waiting.at(-1)!.command_id });
      const [first, other] = await Promise.all([
        writer.send("create", next),
        writer.send("create", creation(), { task: "task-2" }),
      ]);
      expect(first).toMatchObject({
        error: { code: "UNAVAILABLE", details: { after: next.after }, retry_after_ms: expect.any(Number) },
      });
      // Frequent retries would take the time in which the queue empties.
      expect((first as { error: { retry_after_ms: number } }).error.retry_after_ms).toBeGreaterThanOrEqual(
        1_000,
      );
      // Other tasks do not wait.
      expect(other).toMatchObject({ status: "committed" });
      const last = async () => (await writer.send("create", next)).status;
      await expect.poll(last, LONG).toMatch(/committed|queued/);
      await writer.drained();
      expect(await writer.applied()).toEqual([...waiting, next].map((one) => one.command_id));
    },
    LAST_MS,
  );

  test("a command after an unknown one is queued, and `take` never is", async () => {
    const behind = creation({ after: uuidv7() });
    expect(await writer.send("create", behind)).toMatchObject({ status: "queued" });
    await writer.drained();
    expect(await writer.applied()).toEqual([behind.command_id]);
    writer.outage = "refuses";
    const take = { command_id: uuidv7() };
    expect(await writer.send("take", take)).toMatchObject({
      error: { code: "UNAVAILABLE", details: { op: "take" } },
    });
    expect(await writer.depth()).toBe(0);
    expect(await writer.letters()).toEqual([]);
  });

  test(
    "a command that cannot be queued waits for its predecessor, but not for a dead letter",
    async () => {
      await writer.stopAll();
      await writer.enqueueAll(
        "create",
        Array.from({ length: 400 }, () => creation()),
      );
      const handoff = { command_id: uuidv7(), to_agent_type: "qa" };
      await writer.enqueue("handoff", handoff);
      const dead = creation({ expected_version: 99_999 });
      await writer.enqueue("create", dead);
      await writer.startWriter();
      const cancel = { command_id: uuidv7(), after: handoff.command_id };
      expect(await writer.send("cancel_handoff", cancel)).toMatchObject({
        error: { code: "UNAVAILABLE", details: { after: handoff.command_id } },
      });
      const last = async () => (await writer.send("cancel_handoff", cancel)).status;
      await expect.poll(last, { ...LONG, interval: 200 }).toBe("committed");
      await writer.drained();
      const behindDead = { command_id: uuidv7(), after: dead.command_id };
      expect(await writer.send("cancel_handoff", behindDead)).toMatchObject({ error: { code: "CONFLICT" } });
    },
    LAST_MS,
  );

  test("is kept with two writers, one of which stops with open messages", async () => {
    const tasks = Array.from({ length: 12 }, (_, n) => `task-${n}`);
    const sent = new Map(tasks.map((task) => [task, Array.from({ length: 8 }, () => creation())]));
    writer.outage = "hangs";
    for (let n = 0; n < 8; n += 1) {
      await Promise.all(tasks.map((task) => writer.enqueue("create", sent.get(task)![n]!, { task })));
    }
    await writer.opened();
    // Both consume. The first gives its messages back and stops.
    await writer.startWriter();
    const stopped = writer.stopFirst();
    writer.outage = "none";
    await stopped;
    await writer.drained();
    for (const task of tasks) {
      expect(await writer.applied(task)).toEqual(sent.get(task)!.map((one) => one.command_id));
    }
    expect(await writer.letters()).toEqual([]);
  });
});

describe("while the store is unavailable", () => {
  test.each(["refuses", "hangs"] as const)(
    "(it %s) commands are queued at once, and applied in order afterwards",
    async (how) => {
      expect(await writer.send("create", creation())).toMatchObject({ status: "committed" });
      const [before] = await writer.applied();
      writer.outage = how;
      const first = Array.from({ length: 5 }, () => creation());
      const answers = await Promise.all(first.map((body) => writer.send("create", body)));
      for (const [i, answer] of answers.entries()) {
        const { command_id } = first[i]!;
        expect(answer).toEqual({
          status: "queued",
          command_id,
          task_id: "task-1",
          checkpoint_id: command_id,
          position: expect.any(Number),
        });
      }
      await writer.opened();
      const later: string[] = [];
      const took: number[] = [];
      for (let n = 0; n < 20; n += 1) {
        const body = creation();
        const at = performance.now();
        expect(await writer.send("create", body)).toMatchObject({ status: "queued" });
        took.push(performance.now() - at);
        later.push(body.command_id as string);
      }
      // None waits for the store. On a busy machine, a single one may be slow.
      expect(median(took)).toBeLessThan(LIMITS.store_stall_ms);
      expect(await writer.depth()).toBe(25);
      writer.outage = "none";
      await writer.drained();
      const order = await writer.applied();
      expect(order.slice(0, 1)).toEqual([before]);
      expect([...order.slice(1, 6)].sort()).toEqual(first.map(({ command_id }) => command_id).sort());
      expect(order.slice(6)).toEqual(later);
      expect(await writer.letters()).toEqual([]);
      // Commands are applied directly again, and a retry of a queued command is a replay.
      expect(await writer.send("create", first[0]!)).toMatchObject({ status: "committed", replayed: true });
      expect(await writer.send("create", creation())).toMatchObject({ status: "committed", replayed: false });
    },
  );
});
