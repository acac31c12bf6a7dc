// Imports of missions on every engine: the records, what follows from them, and what is refused.

import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { replay } from "../../../../shared/lifecycle/replay.ts";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import { stepMissionSweep } from "../../../../shared/records/mission/mission-sweep.ts";
import { encodeRecord, openRecord, recordHash } from "../../../../shared/records/mission/sealed-record.ts";
import { importTask, type ReadRecord, type ReadTask, readTask } from "../../../harness/records/imports.ts";
import { completeSortie, MISSION, report, startMission } from "../../../harness/records/missions.ts";
import {
  create,
  ENGINES,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

/** A record of any form. */
// biome-ignore lint/suspicious/noExplicitAny: the test breaks the types.
type Forged = Record<string, any>;

const TARGET = "target";
const MINUTES_MS = 60_000;
const of = (agent: string) => ({ task: MISSION, agent });
const BY = { tenant: TARGET, task: MISSION, agent: "human=olga" };

describe.each(ENGINES)("an imported mission on %s", (engine) => {
  let bench: TestRecords;
  let now: number;
  beforeEach(async () => {
    now = Date.now();
    bench = await openTestRecords(engine, () => {
      now += 1;
      return now;
    });
  });
  afterEach(() => bench.close());

  const sweep = () =>
    stepMissionSweep({
      store: bench.store,
      incarnation: bench.format.incarnation,
      service: "writer",
      policies: DEFAULT_POLICIES,
      isMirrored: false,
      now: () => now,
      newId: uuidv7,
    });
  const codeOf = (done: Promise<unknown>): Promise<string> =>
    done.then(
      () => "applied",
      (error: { code?: string }) => error.code ?? String(error),
    );
  const post = (to: string, body: object = {}) =>
    send(
      bench.repository,
      "message_send",
      { to: [to], subject: `to ${to}`, body: "text", ...body },
      of("dispatch"),
    );
  const lock = (agent: string, path: string, body: object = {}) =>
    send(bench.repository, "lock_acquire", { path, ...body }, of(agent));
  const mission = (tenant: string) =>
    bench.repository.missions.find(tenant, "human=olga", { mission_id: MISSION });
  const sorties = async (tenant: string) =>
    (await bench.repository.missions.sorties(tenant, { mission_id: MISSION, limit: 100 })).sorties;
  const messages = async (tenant: string) =>
    (await bench.repository.missions.messages(tenant, "human=olga", { mission_id: MISSION, limit: 100 }))
      .messages;
  const locks = async (tenant: string) =>
    (await bench.repository.missions.locks(tenant, { mission_id: MISSION })).locks;
  const trail = async (tenant: string): Promise<Forged[]> => {
    const { entries } = await bench.repository.audit(tenant, { task_id: MISSION, from_seq: 1, limit: 500 });
    return entries.map(({ entry }) => JSON.parse(entry) as Forged);
  };
  const valuesOf = ({ records }: ReadTask) =>
    Object.fromEntries(
      records.map(({ name, bytes }) => [name, openRecord<Forged>(Buffer.from(bytes, "base64")).value]),
    );

  /** Sorties in four statuses, files that agents hold and wait for, messages in three states, and a subscriber. */
  async function work(): Promise<ReadTask> {
    const { repository } = bench;
    await startMission(repository, 4);
    await completeSortie(repository, 1);
    await report(repository, 2, { status: "in_progress", progress_notes: "half of it – ünïcode" });
    await report(repository, 3, { status: "in_progress" });
    await report(repository, 3, { status: "failed" });
    await lock("specialist-2", "src/a.ts");
    await lock("specialist-4", "src/a.ts", { wait_ms: 10 * MINUTES_MS });
    await lock("specialist-2", "src/b.ts");
    const { message_id } = await post("specialist-1");
    await send(repository, "message_ack", { message_id }, of("specialist-1"));
    await post("specialist-3", { timeout_ms: 1_000 });
    now += 2_000;
    expect(await sweep()).toMatchObject({ failed: 1 });
    await post("specialist-2", { timeout_ms: MINUTES_MS });
    await send(repository, "mailbox_subscribe", { events: ["mission_changed"] }, of("specialist-4"));
    await send(repository, "mission_update", { title: "a mission with an event" }, of("dispatch"));
    const cancelled = await post("specialist-2", { subject: "withdrawn" });
    await send(repository, "message_cancel", { message_id: cancelled.message_id }, of("dispatch"));
    await send(repository, "mission_checkpoint", {}, of("dispatch"));
    return readTask(repository, "default", MISSION);
  }

  test("has its sorties and messages, no locks, and can be continued", async () => {
    const read = await work();
    expect(read.records.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["mission", "locks", "mailbox", "sortie/srt-004", "message/2", "body/2"]),
    );
    // The deadlines of the origin are over.
    now += 10 * MINUTES_MS;
    const importedAt = now;
    await importTask(bench.repository, read, BY);
    const { coordinator: _, fence: _fence, ...was } = await mission("default");
    const { fence, ...is } = await mission(TARGET);
    expect(is).toMatchObject({ ...was, coordinator: null });
    expect(fence).toBe(1);
    expect(await sorties(TARGET)).toEqual(await sorties("default"));
    const [before, after] = [await messages("default"), await messages(TARGET)];
    const timeless = ({ deadline: _deadline, ...message }: (typeof before)[0]) => message;
    expect(after.map(timeless)).toEqual(before.map(timeless));
    const queued = after.find(({ state, kind }) => state === "queued" && kind === "message");
    expect(Date.parse(String(queued?.deadline))).toBeGreaterThan(importedAt + MINUTES_MS);
    expect(await locks(TARGET)).toEqual([]);
    const entries = await trail(TARGET);
    expect(entries.filter(({ op }) => op === "lock_release")).toMatchObject([
      { path: "src/a.ts", agent_id: "specialist-2", reason: "holder_lost", actor: { id: "human=olga" } },
      { path: "src/b.ts", agent_id: "specialist-2", reason: "holder_lost" },
    ]);
    expect(entries.filter(({ op }) => op === "lock_timeout")).toMatchObject([{ agent_id: "specialist-4" }]);
    const origin = entries
      .filter(({ op }) => op === "import_records")
      .flatMap((entry) => entry.origin_records);
    expect(origin.toSorted()).toEqual(read.records.map(({ hash, name }) => `${hash} ${name}`).toSorted());
    expect(replay(entries)).toMatchObject({ origin: { complete: true, records: read.records.length } });
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });

    const current = await bench.repository.missions.find(TARGET, "human=olga", {});
    expect(current).toMatchObject({ mission_id: MISSION, status: "in_progress" });
    const there = { tenant: TARGET, task: MISSION };
    await send(
      bench.repository,
      "message_ack",
      { message_id: queued?.message_id },
      { ...there, agent: "specialist-2" },
    );
    await send(bench.repository, "take", {}, { ...there, agent: "dispatch-2" });
    const resumed = await send(
      bench.repository,
      "mission_resume",
      {},
      { ...there, agent: "dispatch-2", fence: 2 },
    );
    expect(resumed.restored).toMatchObject({ sorties: 4, locks: 2 });
    expect((await locks(TARGET)).map(({ path }) => path)).toEqual(["src/a.ts", "src/b.ts"]);
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
  });

  test("is imported again into a third tenant with the same records", async () => {
    const read = await work();
    await importTask(bench.repository, read, BY);
    const second = await readTask(bench.repository, TARGET, MISSION);
    await importTask(bench.repository, second, { ...BY, tenant: "third" });
    const third = await readTask(bench.repository, "third", MISSION);
    const [first, last] = [valuesOf(read), valuesOf(third)];
    expect(Object.keys(last).toSorted()).toEqual(Object.keys(first).toSorted());
    for (const [name, value] of Object.entries(first)) {
      if (name === "locks") expect(last[name]).toEqual({ locks: [] });
      else if (value.state !== "queued" && name !== "mailbox")
        expect([name, last[name]]).toEqual([name, value]);
    }
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
  });

  test("fails a queued message only when its whole time is over here", async () => {
    const read = await work();
    now += 10 * MINUTES_MS;
    await importTask(bench.repository, read, BY);
    await sweep();
    const state = async () =>
      (await messages(TARGET)).find(({ subject }) => subject === "to specialist-2")?.state;
    expect(await state()).toBe("queued");
    now += MINUTES_MS + 1;
    await sweep();
    expect(await state()).toBe("failed");
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
  });

  test("that has ended stays ended, and is not active", async () => {
    await startMission(bench.repository, 1);
    await completeSortie(bench.repository, 1);
    await send(bench.repository, "mission_update", { status: "completed" }, of("dispatch"));
    await importTask(bench.repository, await readTask(bench.repository, "default", MISSION), BY);
    expect(await mission(TARGET)).toMatchObject({ status: "completed", progress_percent: 100 });
    expect(await codeOf(bench.repository.missions.find(TARGET, "human=olga", {}))).toBe("NOT_FOUND");
    expect(await bench.repository.task(TARGET, MISSION)).toMatchObject({ state: "completed" });
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
  });

  test("accepts nothing but its next records until it ends, each once", async () => {
    const { origin, versions, records, end } = await work();
    await send(bench.repository, "import_begin", { origin }, BY);
    const part = (index: number) => ({ index, records: [records[index]] });
    expect(await codeOf(send(bench.repository, "import_records", part(0), BY))).toBe("CONFLICT");
    for (const [index, version] of versions.entries())
      await send(bench.repository, "import_version", { index, ...version }, BY);
    for (const index of records.keys()) {
      expect(await codeOf(send(bench.repository, "import_end", end, BY))).toBe("CONFLICT");
      const later = { index: index + 1, records: [records[index]] };
      expect(await codeOf(send(bench.repository, "import_records", later, BY))).toBe("CONFLICT");
      const id = uuidv7();
      const once = { ...BY, commandId: id };
      expect(await send(bench.repository, "import_records", part(index), once)).toMatchObject({
        replayed: false,
      });
      expect(await send(bench.repository, "import_records", part(index), once)).toMatchObject({
        replayed: true,
      });
      expect(await codeOf(send(bench.repository, "import_records", part(index), BY))).toBe("CONFLICT");
      const repeated = { index: index + 1, records: [records[index]] };
      expect(await codeOf(send(bench.repository, "import_records", repeated, BY))).toBe("CONFLICT");
    }
    const at = { tenant: TARGET, task: MISSION };
    for (const [op, body] of Object.entries({
      mission_update: { title: "another" },
      mission_checkpoint: {},
      mission_resume: {},
      sortie_add: { sorties: [{ title: "one more" }] },
      lock_acquire: { path: "src/c.ts" },
      message_send: { to: ["specialist-1"], subject: "hello" },
      message_ack: { message_id: "msg-0003" },
      take: {},
    }) as ["take", object][])
      expect([
        op,
        await codeOf(send(bench.repository, op, { ...body }, { ...at, agent: "specialist-2" })),
      ]).toEqual([op, "CONFLICT"]);
    now += 60 * MINUTES_MS;
    await sweep();
    // A crash of the program that imports leaves the task so. The end can follow at any time.
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
    expect((await bench.repository.task(TARGET, MISSION)).origin).toMatchObject({
      ...{ records: records.length, imported_records: records.length, complete: false },
    });
    await send(bench.repository, "import_end", end, BY);
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
  });

  test("a mission cannot begin in a task that is being imported", async () => {
    await create(bench.repository, { task: MISSION });
    const { origin } = await readTask(bench.repository, "default", MISSION);
    await send(bench.repository, "import_begin", { origin }, BY);
    const started = send(
      bench.repository,
      "mission_start",
      { title: "a mission" },
      { ...BY, agent: "dispatch" },
    );
    expect(await codeOf(started)).toBe("CONFLICT");
  });

  test("refuses forged records, and writes nothing of them", async () => {
    const { origin, versions, records } = await work();
    await send(bench.repository, "import_begin", { origin }, BY);
    for (const [index, version] of versions.entries())
      await send(bench.repository, "import_version", { index, ...version }, BY);
    const named = (name: string): ReadRecord => records.find((one) => one.name === name) as ReadRecord;
    const sealed = (name: string, bytes: Uint8Array): ReadRecord => ({
      ...{ name, hash: recordHash(bytes), bytes: Buffer.from(bytes).toString("base64") },
    });
    const changed = (name: string, change: (value: Forged) => void): ReadRecord => {
      const value = structuredClone(openRecord<Forged>(Buffer.from(named(name).bytes, "base64")).value);
      change(value);
      return sealed(name, encodeRecord(value, 7));
    };
    const damaged = Buffer.from(named("sortie/srt-001").bytes, "base64");
    damaged[damaged.length - 3]! ^= 1;
    const forged: Record<string, ReadRecord[]> = {
      "another hash": [{ ...named("mission"), hash: "0".repeat(64) }],
      "other bytes": [{ ...named("mission"), bytes: named("sortie/srt-001").bytes }],
      "a flipped bit under its own hash": [sealed("sortie/srt-001", damaged)],
      "no record": [sealed("mission", Buffer.from("not a record"))],
      "a list": [sealed("mission", encodeRecord([], 7))],
      "another name": [{ ...named("sortie/srt-001"), name: "sortie/srt-002" }],
      "an unknown name": [{ ...named("sortie/srt-001"), name: "secrets" }],
      "the mission of another task": [changed("mission", (value) => (value.mission_id = "other"))],
      "an unknown status": [changed("sortie/srt-001", (value) => (value.status = "done"))],
      "a holder that is no agent": [changed("locks", (value) => (value.locks[0].agent_id = "a.b"))],
      "no deadline": [changed("message/1", (value) => delete value.deadline)],
      "a number at another place": [changed("message/1", (value) => (value.number = 2))],
      "an id of another number": [changed("message/1", (value) => (value.message_id = "msg-0009"))],
      "a body without text": [changed("body/1", (value) => delete value.text)],
      "a time that is none": [changed("mailbox", (value) => (value.open[0].deadline = "soon"))],
      "a time-out without end": [
        changed("message/1", (value) => (value.timeout_ms = Number.MAX_SAFE_INTEGER)),
      ],
      "no recipient": [changed("message/1", (value) => (value.to = []))],
      "a subject without end": [changed("message/1", (value) => (value.subject = "x".repeat(200_000)))],
      "no room for further messages": [changed("mailbox", (value) => (value.next = Number.MAX_SAFE_INTEGER))],
      "a file with two locks": [changed("locks", (value) => value.locks.push(value.locks[0]))],
      "a record twice": [named("mission"), named("mission")],
      "one of two": [named("mission"), changed("body/1", (value) => (value.text = 7))],
    };
    const before = await readTask(bench.repository, TARGET, MISSION);
    for (const [name, some] of Object.entries(forged)) {
      const code = await codeOf(send(bench.repository, "import_records", { index: 0, records: some }, BY));
      expect([name, code]).toEqual([name, "INVALID"]);
    }
    expect(await readTask(bench.repository, TARGET, MISSION)).toEqual(before);
  });

  test.each([
    ["without its mission", "mission"],
    ["without a sortie", "sortie/srt-003"],
    ["without a message that is open", "message/3"],
    ["without the body of such a message", "body/3"],
  ])("does not end %s", async (_name, left) => {
    const read = await work();
    const records = read.records.filter(({ name }) => name !== left);
    expect(records).toHaveLength(read.records.length - 1);
    const origin = { ...read.origin, records: records.length };
    expect(await codeOf(importTask(bench.repository, { ...read, origin, records }, BY))).toBe("INVALID");
    expect((await bench.repository.task(TARGET, MISSION)).origin).toMatchObject({ complete: false });
  });

  test.each<[string, string, (value: Forged) => void]>([
    ["whose next message would replace another", "mailbox", (value) => (value.next = 1)],
    ["whose queued message is not open", "mailbox", (value) => value.open.pop()],
    ["with an open message twice", "mailbox", (value) => value.open.push(value.open[0])],
    ["with the body of another message", "body/1", (value) => (value.number += 1_000)],
  ])("does not end %s", async (_name, name, change) => {
    const read = await work();
    const records = read.records.map((one) => {
      if (one.name !== name) return one;
      const { value } = openRecord<Forged>(Buffer.from(one.bytes, "base64"));
      change(value);
      const bytes = encodeRecord(value, 7);
      return { name, hash: recordHash(bytes), bytes: Buffer.from(bytes).toString("base64") };
    });
    expect(await codeOf(importTask(bench.repository, { ...read, records }, BY))).toBe("INVALID");
    expect((await bench.repository.task(TARGET, MISSION)).origin).toMatchObject({ complete: false });
  });

  test("the query of its records answers what has changed since, at one moment", async () => {
    await work();
    const ask = (after_seq?: number) =>
      bench.repository.missions.records("default", { mission_id: MISSION, after_seq });
    const { task } = await ask();
    expect((await ask(task.audit_seq)).records).toEqual([]);
    await report(bench.repository, 2, { progress_notes: "almost" });
    const changed = await ask(task.audit_seq);
    expect(changed.records.map(({ name }) => name)).toEqual(["mission", "sortie/srt-002"]);
    expect(changed.task.audit_seq).toBe(task.audit_seq + 1);
    await create(bench.repository, { task: "plain" });
    expect((await bench.repository.missions.records("default", { mission_id: "plain" })).records).toEqual([]);
    expect(await codeOf(bench.repository.missions.records("default", { mission_id: "none" }))).toBe(
      "NOT_FOUND",
    );
  });

  test("its records come in pages", async () => {
    await startMission(bench.repository, 2);
    const body = "x".repeat(8_000);
    for (let n = 0; n < 120; n += 1) await post("specialist-1", { body });
    const names: string[] = [];
    let pages = 0;
    for (let cursor: string | undefined; ; pages += 1) {
      const page = await bench.repository.missions.records("default", { mission_id: MISSION, cursor });
      names.push(...page.records.map(({ name }) => name));
      cursor = page.cursor;
      if (cursor === undefined) break;
    }
    expect(pages).toBeGreaterThan(0);
    expect(names).toHaveLength(new Set(names).size);
    expect(names).toHaveLength(2 + 2 + 2 * 120);
  });
});
