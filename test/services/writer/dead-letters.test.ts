/**
 * What the queue cannot apply, against a real nats-server and a real store: every refusal and every kind of rubbish becomes a dead
 * letter with its reason, an alert, and never stands in the way of what comes behind it; people list, retry and drop the letters.
 */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import { CONTENT_TYPES, HEADERS, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { input } from "../../harness/records.ts";
import { creation, openWriterBench, type WriterBench } from "../../harness/writer.ts";

type Json = Record<string, unknown>;

let writer: WriterBench;

beforeEach(async () => {
  writer = await openWriterBench();
});
afterEach(() => writer.close());

async function alerts(): Promise<Json[]> {
  const view = writer.bus.stream(STREAMS.alerts);
  const heads = await view.list(1, 100);
  const bodies = await Promise.all(heads.map(async ({ seq }) => (await view.get(seq))!));
  return bodies.map(({ subject, body }) => ({
    subject,
    ...(JSON.parse(Buffer.from(body).toString()) as Json),
  }));
}

describe("a queued command that is refused", () => {
  test("becomes a letter with its error, and what comes behind it is applied", async () => {
    const made = await writer.send("create", creation());
    const checkpoint_id = made.checkpoint_id as string;
    await writer.send("finalize", { command_id: uuidv7(), checkpoint_id, status: "succeeded" });
    await writer.send("take", { command_id: uuidv7() }, { task: "task-2", agent: "agent-2" });
    const used = creation();
    await writer.send("create", used);
    const big = input({ goal: "x".repeat(1_000_001) });

    const dead: [
      reason: string,
      code: string,
      op: "create" | "update" | "release",
      body: Json,
      task?: string,
    ][] = [
      [
        "not_found",
        "NOT_FOUND",
        "update",
        { checkpoint_id: uuidv7(), patch: { metrics: { tokens_consumed: 1 } } },
      ],
      ["finalized", "FINALIZED", "update", { checkpoint_id, patch: { metrics: { tokens_consumed: 1 } } }],
      ["conflict", "CONFLICT", "create", { checkpoint: input(), expected_version: 7 }],
      ["conflict", "CONFLICT", "create", { ...used, checkpoint: input({ goal: "another" }) }],
      [
        "invalid",
        "INVALID",
        "create",
        { checkpoint: { metadata: { agent_type: "nobody" }, execution_state: { phase: "planning" } } },
      ],
      ["invalid", "INVALID", "create", { checkpoint: input(), fence: 9 }],
      ["too_large", "TOO_LARGE", "create", { checkpoint: big }],
      ["fenced", "FENCED", "create", { checkpoint: input() }, "task-2"],
      ["fenced", "FENCED", "create", { checkpoint: input(), fence: 0 }, "task-2"],
      ["invalid", "INVALID", "release", { fence: 1 }],
    ];
    const ids: string[] = [];
    for (const [, , op, body, task = "task-1"] of dead) {
      const command = { command_id: uuidv7(), ...body };
      ids.push(command.command_id as string);
      await writer.enqueue(op, command, { task });
    }
    const last = creation();
    await writer.enqueue("create", last);
    await writer.drained();

    const letters = await writer.letters();
    const expected = dead.map(([reason, code, op, , task = "task-1"], i) =>
      expect.objectContaining({
        stream: "FLEET_QUEUE",
        reason,
        error: expect.objectContaining({ code, retryable: false }),
        tenant: "default",
        agent_id: "agent-1",
        task_id: task,
        op,
        command_id: ids[i],
      }),
    );
    expect(letters).toHaveLength(dead.length);
    expect(letters).toEqual(expect.arrayContaining(expected));
    expect((await alerts()).map(({ subject, type, severity }) => [subject, type, severity]).sort()).toEqual(
      dead
        .map(([, , , , task = "task-1"]) => [
          SUBJECTS.alert("default", "warning", task),
          "COMMAND_DEAD",
          "warning",
        ])
        .sort(),
    );
    expect((await writer.applied()).at(-1)).toBe(last.command_id);
    // The fenced ones are on record in the trail of the task that they were kept out of.
    const trail = await writer.audit("task-2");
    expect(trail.slice(1)).toMatchObject([
      { op: "refuse", reason: "fenced", command_id: ids[7], actor: { id: "agent-1" }, fence: 1 },
      { op: "refuse", reason: "fenced", command_id: ids[8], actor: { id: "agent-1" }, fence: 1 },
    ]);
    expect(
      (await writer.metrics.queueDeadTotal.get()).values.reduce((sum, { value }) => sum + value, 0),
    ).toBe(dead.length);
  });
});

describe("rubbish", () => {
  test("without headers, without form, under wrong subjects is put aside and harms nobody", async () => {
    const [before, after] = [creation(), creation()];
    await writer.enqueue("create", before);
    const rubbish: [subject: string, body: string | Uint8Array, headers?: Record<string, string>][] = [
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
        { [HEADERS.replyTo]: "_INBOX.agent-1.x".padEnd(9_000, "x") },
      ],
    ];
    for (const [subject, body, headers = {}] of rubbish) {
      await writer.publish(subject, { body: Buffer.from(body), headers });
    }
    await writer.enqueue("create", after);
    await writer.drained();
    expect(await writer.applied()).toEqual([before.command_id, after.command_id]);
    const letters = await writer.letters();
    expect(letters).toHaveLength(rubbish.length);
    for (const letter of letters)
      expect(letter).toMatchObject({ reason: "invalid", error: { code: "INVALID" } });
    const foreign = letters.filter(({ tenant, agent_id, task_id }) => !(tenant && agent_id && task_id));
    expect(foreign).toHaveLength(4);
    expect(await alerts()).toHaveLength(rubbish.length);
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

  beforeEach(() => writer.startReader());

  test("are listed in pages, to their own tenant only", async () => {
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
      dead: 10,
      left_total: 10,
      store: "ok",
    });
  });

  test("that can be applied by now are applied when they are retried, once", async () => {
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
  });

  test("that are dropped are gone, and on record", async () => {
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
      actor: { type: "service" },
    };
    expect((await writer.audit()).at(-1)).toMatchObject(refused);
    await expect
      .poll(() => events.at(-1))
      .toMatchObject({
        type: "COMMAND_REFUSED",
        sequence: 2,
        data: { commandId: letter!.command_id, agentId: "agent-1", reason: "dropped" },
      });
  });
});
