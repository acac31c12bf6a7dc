// Late commands. A command that was applied once is answered again or refused, and never applied a second
// time, however the clearing of records and the clock interleave with it.

import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { fleetStreams } from "../../../../shared/bus/streams/streams.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { COMMAND_OPS, type CommandOp } from "../../../../shared/protocol/operations.ts";
import { clearExpired } from "../../../../shared/records/task/expiry.ts";
import { esignBody } from "../../../harness/esign/signed-statement.ts";
import { initiate, offer } from "../../../harness/records/handoffs.ts";
import { readTask } from "../../../harness/records/imports.ts";
import {
  create,
  ENGINES,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";

/** Those of shredding need two persons: test/shared/records/retention/shred.test.ts. */
const OPS = COMMAND_OPS.filter((op) => !op.startsWith("shred_"));

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const START = Date.UTC(2030, 0, 1, 12, 20);

/** A UUIDv7 with this time. */
function idAt(ms: number): string {
  const time = ms.toString(16).padStart(12, "0");
  const random = randomBytes(9).toString("hex");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6)}`;
}

const codeOf = (promise: Promise<{ replayed: boolean }>): Promise<string> =>
  promise.then(
    ({ replayed }) => (replayed ? "replayed" : "applied"),
    (error: unknown) => {
      if (error instanceof FleetError) return error.code;
      throw error;
    },
  );

describe.each(ENGINES)("late commands on %s", (engine) => {
  let bench: TestRecords;
  let now: number;

  beforeEach(async () => {
    now = START;
    bench = await openTestRecords(engine, () => now);
  });
  afterEach(() => bench.close());

  /** The writer's periodic job: forgets at most one hour's records. */
  async function forget(): Promise<number> {
    const options = { label: "test", deadlineMs: 2_000, onUnknown: "safe" } as const;
    for (let cleared = 0; ; ) {
      const { value } = await bench.store.transact(options, (tx) => clearExpired(tx, now, 3));
      cleared += value.cleared;
      if (!value.more) return cleared;
    }
  }

  async function forgetAll(): Promise<number> {
    let all = 0;
    for (let cleared = -1; cleared !== 0; all += cleared) cleared = await forget();
    return all;
  }

  const entries = async (task: string) => (await bench.repository.task("default", task)).audit_seq;

  async function removeFirst(task: string): Promise<void> {
    const [first] = (await bench.repository.history("default", { task_id: task, limit: 1, order: "oldest" }))
      .checkpoints;
    const checkpoint = { ...input(), metadata: { ...input().metadata, parent_ids: [] } };
    for (let n = 0; n < 2; n += 1) await create(bench.repository, { task, checkpoint, commandId: idAt(now) });
    const named = { checkpoint_id: first?.metadata.checkpoint_id, keep: 1 };
    await send(bench.repository, "remove", named, { task, commandId: idAt(now) });
  }

  /** A command of an import into another tenant, in the state that it needs. */
  async function oneOfImport(op: CommandOp) {
    const task = `task-${op}`;
    const by = { tenant: "target", task };
    await create(bench.repository, { task, commandId: idAt(now) });
    const mission = { title: "a mission" };
    await send(bench.repository, "mission_start", mission, { task, commandId: idAt(now) });
    if (op === "import_removed") await removeFirst(task);
    const { origin, versions, removed, records, end } = await readTask(bench.repository, "default", task);
    const bodies = {
      import_begin: { origin },
      ...(removed.length > 0 && { import_removed: { index: 0, removed: removed[0] } }),
      import_version: { index: 0, ...versions[0] },
      import_records: { index: 0, records },
      import_end: end,
    };
    for (const [earlier, body] of Object.entries(bodies)) {
      if (earlier === op) break;
      await send(
        bench.repository,
        earlier as keyof typeof bodies,
        { ...body },
        { ...by, commandId: idAt(now) },
      );
    }
    const commandId = idAt(now);
    const body = bodies[op as keyof typeof bodies];
    return { op, task, again: () => codeOf(send(bench.repository, op, { ...body }, { ...by, commandId })) };
  }

  /** The mission that the command needs, with a lock or a message. */
  async function prepareMission(op: CommandOp, task: string): Promise<void> {
    const apply = (first: CommandOp, body: Record<string, unknown>) =>
      send(bench.repository, first, body, { task, commandId: idAt(now) });
    if (op === "mission_start" || !/^(mission|sortie|lock|message|mailbox)_/.test(op)) return;
    await apply("mission_start", { title: "a mission" });
    await apply("sortie_add", { sorties: [{ title: "a part" }] });
    await apply("mission_checkpoint", {});
    if (op.startsWith("lock_")) await apply("lock_acquire", { path: "held.ts" });
    if (op === "message_ack" || op === "message_cancel")
      await apply("message_send", { to: ["agent-1"], subject: "to itself" });
  }

  /**
   * One command of each kind, each on its own task, with a function that sends it as often as it is called.
   */
  async function oneOfEach() {
    const prepared = OPS.map(async (op) => {
      if (op.startsWith("import_")) return oneOfImport(op);
      const task = `task-${op}`;
      const parent = await create(bench.repository, { task, commandId: idAt(now) });
      const checkpoint = input();
      checkpoint.metadata.parent_ids = [];
      const child = await create(bench.repository, { task, checkpoint, commandId: idAt(now) });
      // A recovery would need the last two.
      if (op === "remove") await create(bench.repository, { task, commandId: idAt(now) });
      if (op === "release") await send(bench.repository, "take", {}, { task, commandId: idAt(now) });
      await prepareMission(op, task);
      const handoff_id = idAt(now);
      if (op === "cancel_handoff" || op === "acknowledge") {
        await initiate(bench.repository, { task, commandId: handoff_id });
      }
      if (op === "acknowledge") await offer(bench.repository, handoff_id);
      const open = op === "acknowledge" ? await bench.repository.handoff("default", { handoff_id }) : null;
      const body = {
        create: { checkpoint: input() },
        update: { checkpoint_id: child.checkpoint_id, patch: { execution_state: { goal: "g" } } },
        finalize: { checkpoint_id: child.checkpoint_id, status: "handed_off" },
        link: { parent_id: parent.checkpoint_id, child_id: child.checkpoint_id },
        take: {},
        release: { fence: 1 },
        handoff: {},
        acknowledge: {
          handoff_id,
          checkpoint_id: child.checkpoint_id,
          agent_type: "qa",
          offer_digest: open?.offer_digest,
        },
        cancel_handoff: {},
        recover: {},
        remove: { checkpoint_id: parent.checkpoint_id, keep: 1 },
        retain: { retention_policy: "P30D" },
        hold: { hold: "case-1" },
        ...{ shred_request: {}, shred_approve: {}, shred_cancel: {} },
        fork: { source_task_id: task },
        signature_add: op === "signature_add" ? await esignBody(bench.repository, { task }) : {},
        mission_start: { title: "a mission" },
        mission_update: { title: "a mission" },
        mission_checkpoint: {},
        mission_resume: {},
        sortie_add: { sorties: [{ title: "another part" }] },
        sortie_update: { sortie_id: "srt-001", progress_notes: "half done" },
        lock_acquire: { path: "new.ts" },
        lock_renew: { path: "held.ts" },
        lock_release: { path: "held.ts" },
        message_send: { to: ["agent-1"], subject: "to itself" },
        message_ack: { message_id: "msg-0001" },
        message_cancel: { message_id: "msg-0001" },
        mailbox_subscribe: { events: ["mission_changed"] },
        ...{ import_begin: {}, import_version: {}, import_removed: {}, import_records: {}, import_end: {} },
      }[op];
      const commandId = idAt(now);
      const target = op === "fork" ? `${task}-new` : task;
      return { op, task, again: () => codeOf(send(bench.repository, op, body, { task: target, commandId })) };
    });
    return Promise.all(prepared);
  }

  test("every command is answered again for 48 hours, and refused as EXPIRED once its record is cleared", async () => {
    const commands = await oneOfEach();
    for (const { again } of commands) expect(await again()).toBe("applied");
    now = START + LIMITS.idempotency_ms;
    expect(await forgetAll()).toBe(0);
    for (const { again } of commands) expect(await again()).toBe("replayed");
    const before = await Promise.all(commands.map(({ task }) => entries(task)));
    now += 2 * HOUR;
    expect(await forgetAll()).toBeGreaterThan(commands.length);
    for (const { op, again } of commands) expect([op, await again()]).toEqual([op, "EXPIRED"]);
    expect(await Promise.all(commands.map(({ task }) => entries(task)))).toEqual(before);
  });

  test("the refusal of an expired command names the oldest remembered time, and a new command is applied", async () => {
    await create(bench.repository, { task: "a", commandId: idAt(now) });
    const old = idAt(now + MINUTE);
    now += 50 * HOUR;
    await forgetAll();
    const error = await create(bench.repository, { task: "a", commandId: old }).catch((reason) => reason);
    // The first command's bucket ends on the hour; ids may be a minute ahead of the clock.
    expect(error.toBody()).toMatchObject({
      code: "EXPIRED",
      retryable: false,
      fields: [{ path: "command_id", expected: "a UUIDv7 made after 2030-01-01T13:01:00.000Z", got: old }],
      details: { made_at: "2030-01-01T12:21:00.000Z", remembered_since: "2030-01-01T13:01:00.000Z" },
    });
    expect(await codeOf(create(bench.repository, { task: "a", commandId: idAt(now) }))).toBe("applied");
  });

  test("an old command that waited while the store was unavailable is applied, as no later one was forgotten", async () => {
    await create(bench.repository, { task: "a", commandId: idAt(now) });
    const waited = idAt(now + 2 * HOUR);
    now += 10 * 24 * HOUR;
    await forgetAll();
    expect(await codeOf(create(bench.repository, { task: "a", commandId: waited }))).toBe("applied");
    expect(await codeOf(create(bench.repository, { task: "a", commandId: waited }))).toBe("replayed");
  });

  test("no command is applied twice when the clock is days ahead for a while", async () => {
    const commands = await oneOfEach();
    for (const { again } of commands) expect(await again()).toBe("applied");
    const before = await Promise.all(commands.map(({ task }) => entries(task)));
    now += 100 * HOUR;
    await forgetAll();
    for (const { again } of commands) expect(await again()).toBe("EXPIRED");
    now = START + MINUTE;
    for (const { again } of commands) expect(await again()).toBe("EXPIRED");
    expect(await Promise.all(commands.map(({ task }) => entries(task)))).toEqual(before);
    // At worst, new commands are refused until the hour of the last cleared record has passed.
    now = START + HOUR + 2 * MINUTE;
    expect(await codeOf(create(bench.repository, { task: "a", commandId: idAt(now) }))).toBe("applied");
  });

  test("a run forgets one hour's records, so that a wrong clock that is soon corrected does little damage", async () => {
    const ids: string[] = [];
    for (let hour = 0; hour < 6; hour += 1) {
      now = START + hour * HOUR;
      for (let i = 0; i < 5; i += 1) ids.push(idAt(now));
      for (const commandId of ids.slice(-5)) await create(bench.repository, { task: "a", commandId });
    }
    now += 100 * HOUR;
    expect(await forget()).toBe(5);
    expect(await forget()).toBe(5);
    now -= 100 * HOUR;
    const codes = await Promise.all(
      ids.map((commandId) => codeOf(create(bench.repository, { task: "a", commandId }))),
    );
    expect(codes).toEqual([...Array(10).fill("EXPIRED"), ...Array(20).fill("replayed")]);
  });

  test.each(OPS)(
    "%s: an id ahead of the clock is refused, since its record would expire too soon",
    async (op) => {
      const commands = await oneOfEach();
      const command = commands.find((one) => one.op === op);
      now -= 2 * MINUTE;
      expect(await command?.again()).toBe("INVALID");
      now += 2 * MINUTE;
      expect(await command?.again()).toBe("applied");
    },
  );

  test("a command that runs while its record is being cleared is not applied", async () => {
    const { checkpoint_id: id } = await create(bench.repository, { task: "a", commandId: idAt(now) });
    const commandId = idAt(now);
    const patch = { checkpoint_id: id, patch: { execution_state: { goal: "g" } } };
    const again = () => codeOf(send(bench.repository, "update", patch, { task: "a", commandId }));
    expect(await again()).toBe("applied");
    now += 50 * HOUR;
    const outcomes: string[] = [];
    for (let round = 0; round < 20; round += 1) outcomes.push(...(await Promise.all([again(), again()])));
    const racing = Array.from({ length: 20 }, again);
    const forgetting = forgetAll();
    outcomes.push(...(await Promise.all([...racing, ...Array.from({ length: 20 }, again)])));
    await forgetting;
    outcomes.push(await again());
    expect([...new Set(outcomes)].sort()).toEqual(["EXPIRED", "replayed"]);
    expect((await bench.repository.get("default", id)).metadata.version).toBe(2);
  });

  test("in any sequence of commands, clock jumps and clearing, each command is applied at most once", async () => {
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant("send"), which: fc.integer({ min: 0, max: 9 }) }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant("new") }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constant("forget") }) },
      {
        weight: 3,
        arbitrary: fc.record({
          do: fc.constant("jump"),
          ms: fc.integer({ min: -60 * HOUR, max: 60 * HOUR }),
        }),
      },
    );
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        runs += 1;
        const task = `run-${runs}`;
        const commands: string[] = [];
        const applied: string[] = [];
        for (const one of steps as { do: string; which?: number; ms?: number }[]) {
          if (one.do === "new") commands.push(idAt(now));
          else if (one.do === "jump") now += one.ms as number;
          else if (one.do === "forget") await forget();
          const commandId = commands[one.which ?? -1];
          if (one.do !== "send" || commandId === undefined) continue;
          const code = await codeOf(send(bench.repository, "take", {}, { task, commandId }));
          expect(["applied", "replayed", "EXPIRED", "INVALID"]).toContain(code);
          if (code === "applied") applied.push(commandId);
        }
        expect(new Set(applied).size).toBe(applied.length);
        if (applied.length > 0) expect(await entries(task)).toBe(applied.length);
      }),
      { numRuns: 80 },
    );
  });
});

test("the duplicate windows of the streams are shorter than the time within which commands are redelivered", () => {
  for (const { duplicateWindowMs } of fleetStreams())
    expect(duplicateWindowMs).toBeLessThan(LIMITS.redelivery_ms_max);
});
