/**
 * Queued commands that cannot be applied, on a real nats-server and a real store: every refusal and every
 * malformed message becomes a dead letter with its reason and an alert, and later commands are applied.
 * Operators list, retry and drop the letters.
 */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import { CONTENT_TYPES, HEADERS, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { creation, type InProcessFleet, openInProcessWriter } from "../../harness/in-process-fleet.ts";
import { input } from "../../harness/records/records.ts";

type Json = Record<string, unknown>;

let writer: InProcessFleet;

beforeEach(async () => {
  writer = await openInProcessWriter();
});
afterEach(() => writer.close());

async function alerts(): Promise<Json[]> {
  const view = writer.bus.stream(STREAMS.alerts);
  const heads = await view.list(1, 100);
  const bodies = await Promise.all(heads.map(async ({ seq }) => (await view.get(seq))!));
  return bodies.map(({ subject, body }) => ({
    ...(JSON.parse(Buffer.from(body).toString()) as Json),
    subject,
  }));
}

interface RefusedCommand {
  readonly code: string;
  readonly op: "create" | "update" | "release";
  readonly body: Json;
  readonly task?: string;
}

/** One command for each refusal. `checkpoint_id` is finalized, `used` is the id of another command. */
function refusedCommands(checkpoint_id: string, used: string): RefusedCommand[] {
  const patch = { metrics: { tokens_consumed: 1 } };
  const unregistered = { metadata: { agent_type: "unregistered" }, execution_state: { phase: "planning" } };
  const big = input({ goal: "x".repeat(1_000_001) });
  return [
    { code: "NOT_FOUND", op: "update", body: { checkpoint_id: uuidv7(), patch } },
    { code: "FINALIZED", op: "update", body: { checkpoint_id, patch } },
    { code: "CONFLICT", op: "create", body: { checkpoint: input(), expected_version: 7 } },
    { code: "CONFLICT", op: "create", body: { command_id: used, checkpoint: input({ goal: "another" }) } },
    { code: "INVALID", op: "create", body: { checkpoint: unregistered } },
    { code: "INVALID", op: "create", body: { checkpoint: input(), fence: 9 } },
    { code: "INVALID", op: "release", body: { fence: 1 } },
    { code: "TOO_LARGE", op: "create", body: { checkpoint: big } },
    { code: "FENCED", op: "create", body: { checkpoint: input() }, task: "task-2" },
    { code: "FENCED", op: "create", body: { checkpoint: input(), fence: 0 }, task: "task-2" },
  ];
}

test("a command of a newer version of the messages becomes a dead letter that keeps its version", async () => {
  const command = creation();
  await writer.enqueue("create", command, { headers: { [HEADERS.protocol]: "2" } });
  await writer.drained();
  const [letter] = await writer.letters();
  expect(letter).toMatchObject({ reason: "unsupported_version", error: { code: "UNSUPPORTED_VERSION" } });
  const [head] = await writer.bus.stream(STREAMS.dead).list(1, 10);
  const stored = await writer.bus.stream(STREAMS.dead).get(head!.seq);
  expect(stored?.headers.get(HEADERS.protocol)).toBe("2");
});

test("a refused command becomes a dead letter, and later commands are applied", async () => {
  const used = creation();
  const { checkpoint_id } = await writer.send("create", used);
  await writer.send("finalize", { command_id: uuidv7(), checkpoint_id, status: "succeeded" });
  await writer.send("take", { command_id: uuidv7() }, { task: "task-2", agent: "agent-2" });
  const dead = refusedCommands(checkpoint_id as string, used.command_id as string).map((one) => ({
    task: "task-1",
    ...one,
    body: { command_id: uuidv7(), ...one.body } as Json,
  }));
  for (const { op, body, task } of dead) await writer.enqueue(op, body, { task });
  const last = creation();
  await writer.enqueue("create", last);
  await writer.drained();

  const letters = await writer.letters();
  const expected = dead.map(({ code, op, body, task }) =>
    expect.objectContaining({
      stream: "FLEET_QUEUE",
      reason: code.toLowerCase(),
      error: expect.objectContaining({ code, retryable: false }),
      tenant: "default",
      agent_id: "agent-1",
      task_id: task,
      op,
      command_id: body.command_id,
    }),
  );
  expect(letters).toHaveLength(dead.length);
  expect(letters).toEqual(expect.arrayContaining(expected));
  const raised = (await alerts()).map(({ subject, type }) => `${subject} ${type}`);
  const due = dead.map(({ task }) => `${SUBJECTS.alert("default", "warning", task)} COMMAND_DEAD`);
  expect(raised.sort()).toEqual(due.sort());
  expect((await writer.applied()).at(-1)).toBe(last.command_id);
  // Fenced commands are in the audit trail of their task.
  const fenced = dead.filter(({ code }) => code === "FENCED").map(({ body }) => body.command_id);
  const refused = { op: "refuse", reason: "fenced", actor: { id: "agent-1", type: "agent" }, fence: 1 };
  expect((await writer.audit("task-2")).slice(1)).toMatchObject(
    fenced.map((command_id) => ({ ...refused, command_id })),
  );
  const { values } = await writer.metrics.queueDeadTotal.get();
  expect(values.reduce((sum, { value }) => sum + value, 0)).toBe(dead.length);
});

test("the completion of a checkpoint that a newer one follows becomes a dead letter, which names the newer one", async () => {
  const older = creation({ checkpoint: input({ phase: "complete" }) });
  const newer = creation();
  const completion = { command_id: uuidv7(), checkpoint_id: older.command_id, status: "succeeded" };
  await writer.enqueue("create", older);
  await writer.enqueue("create", newer);
  await writer.enqueue("finalize", completion);
  await writer.drained();
  expect(await writer.letters()).toMatchObject([
    {
      reason: "conflict",
      error: { code: "CONFLICT", retryable: false, details: { latest_id: newer.command_id } },
      command_id: completion.command_id,
    },
  ]);
});

test("a fault of Fleet is retried a few times and does not delay later commands", async () => {
  writer.outage = "breaks";
  const faulty = creation();
  await writer.enqueue("create", faulty);
  await writer.drained();
  expect(await writer.letters()).toMatchObject([
    { reason: "internal", error: { code: "INTERNAL" }, command_id: faulty.command_id },
  ]);
  writer.outage = "none";
  const next = creation();
  await writer.enqueue("create", next);
  await writer.drained();
  expect(await writer.applied()).toEqual([next.command_id]);
});

describe("a malformed message", () => {
  test("of any kind becomes a dead letter and delays no command", async () => {
    const [before, after] = [creation(), creation()];
    await writer.enqueue("create", before);
    const malformed: [subject: string, body: string | Uint8Array, headers?: Record<string, string>][] = [
      ["fleet.queue.default.agent-1.task-1.create", "{"],
      ["fleet.queue.default.agent-1.task-1.create", ""],
      ["fleet.queue.default.agent-1.task-1.create", "[]"],
      ["fleet.queue.default.agent-1.task-1.create", '{"command_id":"7"}'],
      ["fleet.queue.default.agent-1.task-1.create", Buffer.from([0xff, 0xfe, 0x00])],
      ["fleet.queue.default.agent-1.task-1.create", "{}", { [HEADERS.contentType]: "text/html" }],
      [
        "fleet.queue.default.agent-1.task-1.create",
        Buffer.from([0xc1]),
        { [HEADERS.contentType]: CONTENT_TYPES.msgpack },
      ],
      ["fleet.queue.default.agent-1.task-1.take", JSON.stringify({ command_id: uuidv7() })],
      ["fleet.queue.default.agent-1.task-1.drop_all", "{}"],
      ["fleet.queue.default.agent-1.$task.create", JSON.stringify(creation())],
      [`fleet.queue.default.agent-1.${"t".repeat(65)}.create`, JSON.stringify(creation())],
      ["fleet.queue.ten^ant.agent-1.task-1.create", JSON.stringify(creation())],
      ["fleet.queue.default.\u001b[31m.task-1.create", JSON.stringify(creation())],
      [
        "fleet.queue.default.agent-1.task-1.create",
        "x".repeat(1_900_000),
        { [HEADERS.replyTo]: "_INBOX.default.agent-1.x".padEnd(9_000, "x") },
      ],
    ];
    for (const [subject, body, headers = {}] of malformed) {
      await writer.publish(subject, { body: Buffer.from(body), headers });
    }
    await writer.enqueue("create", after);
    await writer.drained();
    expect(await writer.applied()).toEqual([before.command_id, after.command_id]);
    const letters = await writer.letters();
    expect(letters).toHaveLength(malformed.length);
    for (const letter of letters)
      expect(letter).toMatchObject({ reason: "invalid", error: { code: "INVALID" } });
    const foreign = letters.filter(({ tenant, agent_id, task_id }) => !(tenant && agent_id && task_id));
    expect(foreign).toHaveLength(4);
    expect(await alerts()).toHaveLength(malformed.length);
  });
});

describe("dead letters", () => {
  const lost = (tenant = "default") =>
    writer.enqueue(
      "update",
      { command_id: uuidv7(), checkpoint_id: uuidv7(), patch: { metrics: {} } },
      { tenant },
    );
  const listed = async (query: Json = {}, tenant?: string) =>
    (await writer.ask("dead_list", query, tenant)).result as { letters: Json[]; next_seq: number | null };

  /** The audit chain of the tenant. */
  const recorded = async () =>
    ((await writer.ask("tenant_audit")).result as { entries: { entry: string }[] }).entries.map(
      ({ entry }) => JSON.parse(entry) as Json,
    );

  beforeEach(() => writer.startReader());

  test("are listed in pages, each tenant's own only", async () => {
    for (let n = 0; n < 5; n += 1) {
      await lost();
      await lost("other");
    }
    await writer.drained();
    const first = await listed({ limit: 3 });
    expect(first.letters).toHaveLength(3);
    const second = await listed({ limit: 3, from_seq: first.next_seq });
    expect(second).toMatchObject({ letters: [{ tenant: "default" }, { tenant: "default" }], next_seq: null });
    const seqs = [...first.letters, ...second.letters].map(({ seq }) => seq);
    const others = (await listed({}, "other")).letters;
    expect(others).toHaveLength(5);
    expect(new Set([...seqs, ...others.map(({ seq }) => seq)]).size).toBe(10);
    for (const op of ["dead_retry", "dead_drop"] as const) {
      expect(await writer.ask(op, { seq: others[0]!.seq }), op).toMatchObject({
        error: { code: "NOT_FOUND" },
      });
      expect(await writer.ask(op, { seq: 999 }), op).toMatchObject({ error: { code: "NOT_FOUND" } });
    }
    expect(await listed({}, "third")).toEqual({ letters: [], next_seq: null });
    expect((await writer.ask("queue_status")).result).toMatchObject({
      depth: 0,
      dead: 5,
      left_total: 10,
      store: "ok",
    });
  });

  test("that can be applied by now are applied once when retried", async () => {
    const checkpoint_id = uuidv7();
    const update = { command_id: uuidv7(), checkpoint_id, patch: { metrics: { tokens_consumed: 5 } } };
    await writer.enqueue("update", update, { headers: { [HEADERS.contentType]: CONTENT_TYPES.json } });
    await writer.drained();
    await writer.send("create", creation({ command_id: checkpoint_id }));
    const [letter] = (await listed()).letters;
    const retried = await writer.ask("dead_retry", { seq: letter!.seq });
    expect(retried).toMatchObject({ status: "ok", result: { command_id: update.command_id, position: 2 } });
    await writer.drained();
    expect(await listed()).toEqual({ letters: [], next_seq: null });
    expect(await writer.ask("dead_retry", { seq: letter!.seq })).toMatchObject({
      error: { code: "NOT_FOUND" },
    });
    expect(await writer.send("update", update)).toMatchObject({ version: 2, replayed: true });
    const subject = { letter: letter!.seq, task_id: "task-1", command_id: update.command_id };
    expect(await recorded()).toMatchObject([{ action: "dead_retry", actor: { id: "operator-1" }, subject }]);
  });

  test("without a queued command cannot be retried, which leaves no entry", async () => {
    await writer.publish("fleet.queue.default.agent-1.task-1.drop_all", { body: Buffer.from("{}") });
    await writer.drained();
    const [letter] = (await listed()).letters;
    expect(await writer.ask("dead_retry", { seq: letter!.seq })).toMatchObject({
      error: { code: "INVALID" },
    });
    expect(await recorded()).toEqual([]);
    expect((await listed()).letters).toHaveLength(1);
  });

  test("show that a copy of their command was applied, and a retry changes nothing", async () => {
    const checkpoint_id = uuidv7();
    const update = { command_id: uuidv7(), checkpoint_id, patch: { metrics: { tokens_consumed: 5 } } };
    await writer.enqueue("update", update);
    await writer.enqueue("update", { ...update, patch: { metrics: { tokens_consumed: 6 } } });
    await writer.drained();
    const before = (await listed()).letters;
    expect(before).toMatchObject([{ applied_at: null }, { applied_at: null }]);
    await writer.send("create", creation({ command_id: checkpoint_id }));
    const copy = await writer.send("update", update);
    expect(copy).toMatchObject({ status: "committed", version: 2 });
    // The command with the same id and another content was not applied.
    expect((await listed()).letters).toMatchObject([
      { applied_at: copy.committed_at, reason: "not_found" },
      { applied_at: null, reason: "not_found" },
    ]);
    expect(await writer.ask("dead_retry", { seq: before[0]!.seq })).toMatchObject({
      result: { applied_at: copy.committed_at },
    });
    await writer.drained();
    expect(await writer.send("update", update)).toMatchObject({ version: 2, replayed: true });
    expect((await listed()).letters).toMatchObject([{ seq: before[1]!.seq }]);
  });

  test("are listed while the store is unavailable, without the time at which they were applied", async () => {
    await lost();
    await writer.drained();
    writer.outage = "refuses";
    expect((await listed()).letters).toMatchObject([{ applied_at: null }]);
  });

  test("that are dropped are removed and audited", async () => {
    const events: FleetEvent[] = [];
    await writer.bus.subscribe(SUBJECTS.everyEvent, ({ body }) => {
      events.push(JSON.parse(Buffer.from(body).toString()) as FleetEvent);
    });
    await writer.send("create", creation());
    await lost();
    await writer.drained();
    const [letter] = (await listed()).letters;
    expect(await writer.ask("dead_drop", { seq: letter!.seq })).toEqual({
      status: "ok",
      result: { seq: letter!.seq, command_id: letter!.command_id },
    });
    expect((await listed()).letters).toEqual([]);
    const refused = {
      op: "refuse",
      reason: "dropped",
      command_id: letter!.command_id,
      actor: { id: "reader", on_behalf_of: "operator-1", type: "service" },
    };
    expect((await writer.audit()).at(-1)).toMatchObject(refused);
    const subject = { letter: letter!.seq, task_id: "task-1", command_id: letter!.command_id };
    expect(await recorded()).toMatchObject([{ action: "dead_drop", actor: { id: "operator-1" }, subject }]);
    await expect
      .poll(() => events.at(-1))
      .toMatchObject({
        type: "COMMAND_REFUSED",
        sequence: 2,
        data: { commandId: letter!.command_id, agentId: "agent-1", reason: "dropped" },
      });
  });
});
