/**
 * Deliberate edits of the store: well-formed records with valid check values, which only a comparison with the audit trail finds. Each
 * test makes a store with commands, edits rows, and expects findings.
 */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { TaskRecord } from "../../../../shared/lifecycle/task.ts";
import type { FleetEvent } from "../../../../shared/protocol/events.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import { idTime } from "../../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { decode, encode, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { appendEvent } from "../../../../shared/records/outbox/outbox.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import { clearExpired } from "../../../../shared/records/task/expiry.ts";
import { decodeHead, encodeHead } from "../../../../shared/records/task/head.ts";
import { openRemembered, remember } from "../../../../shared/records/task/idempotency.ts";
import { type Bytes, STAMP_BYTES, type Tx } from "../../../../shared/store/store.ts";
import { ENGINES, finalize, send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
const keys = tenantKeys("default");

describe.each(ENGINES)("an edited store on %s", (engine) => {
  let place: TestTasks;
  beforeEach(async () => {
    place = await TestTasks.open(engine);
  });
  afterEach(() => place.close());

  const get = (key: Bytes) => place.store.read(WRITE, (reader) => reader.get(key));
  const edit = (change: (tx: Tx) => Promise<unknown>) => place.store.transact(WRITE, change);
  const editHead = (task: string, change: Partial<TaskRecord>) =>
    edit(async (tx) => {
      const head = decodeHead((await tx.get(keys.task(task))) as Bytes);
      tx.set(keys.task(task), encodeHead({ ...head, ...change }));
    });

  /** The findings without those about events that wait for their publication. */
  const foundInRecords = async () => (await found()).filter(([kind]) => kind !== "event");

  const update = (id: string, task: string, command?: string) => {
    const patch = { execution_state: { current_focus: "the rest" } };
    const by = { task, agent: "agent-1", fence: 1, ...(command && { commandId: command }) };
    return send(place.repository, "update", { checkpoint_id: id, patch }, by);
  };

  /** A task whose third entry is an update. */
  async function updated(): Promise<{ task: string; id: string }> {
    const task = await place.owned(1);
    const id = (await place.head(task)).latest_id!;
    await update(id, task);
    return { task, id };
  }

  type StoredAnswer = { request: Bytes; answer: object };

  /** Changes a record and keeps its stamp. */
  const editAnswer = (command: string, change: (record: StoredAnswer) => object) =>
    edit(async (tx) => {
      const record = (await tx.get(keys.command(command))) as Bytes;
      const changed = encodeChecked(change(decode<StoredAnswer>(record.subarray(STAMP_BYTES))));
      tx.set(keys.command(command), Buffer.concat([record.subarray(0, STAMP_BYTES), changed]));
    });

  /** The findings of a pass in large steps, which are the same in tiny steps. */
  async function found(): Promise<[kind: string, details: string][]> {
    const passes = [await scrub(place), await scrub(place, { stepBytes: 1_000 })];
    const [large, tiny] = passes.map(({ findings }) =>
      findings.map(({ kind, details }): [string, string] => [kind, details]).sort(),
    );
    expect(tiny).toEqual(large);
    return large!;
  }

  test.each<[name: string, change: Partial<TaskRecord>]>([
    ["owner", { owner: "mallory" }],
    ["phase", { phase: "complete" }],
    ["agent_id", { agent_id: "mallory" }],
    ["last_successful_id", { last_successful_id: null }],
    ["completed_items", { completed_items: 7 }],
    ["taken_seq", { taken_seq: 1 }],
  ])("finds another %s in the head", async (name, change) => {
    const task = await place.owned(2);
    const { latest_id } = await place.head(task);
    await finalize(place.repository, latest_id!, "succeeded", { task, fence: 1 });
    expect(await found()).toEqual([]);
    await editHead(task, change);
    expect(await found()).toEqual([["head", expect.stringMatching(new RegExp(`in: .*${name}`))]]);
  });

  test("finds an edited budget and an edited block", async () => {
    const task = await place.spent();
    expect(await found()).toEqual([]);
    const { work, budget } = decodeHead((await get(keys.task(task))) as Bytes);
    await editHead(task, { budget: { ...budget!, failures: 0 } });
    expect(await found()).toEqual([["head", expect.stringMatching(/in: budget$/)]]);
    await editHead(task, { budget, work: { ...work, alert_seq: 1 } as TaskRecord["work"] });
    expect(await found()).toEqual([["head", expect.stringMatching(/in: work$/)]]);
  });

  test("finds a lowered fence, and a write under the old fence after it", async () => {
    const task = await place.owned(1);
    await send(place.repository, "take", {}, { task, agent: "agent-2", fence: 1 });
    await editHead(task, { fence: 1 });
    expect(await found()).toEqual([["head", expect.stringMatching(/another state or fence/)]]);
    await place.write(task, "agent-1", { fence: 1 });
    expect(await found()).toContainEqual(["audit", expect.stringMatching(/its fence is 1, .* leads to 2/)]);
  });

  test.each<[name: string, change: Partial<Handoff>]>([
    ["attempt", { attempt: 2 }],
    ["checkpoint_hash", { checkpoint_hash: "0".repeat(64) }],
    ["to_agent_type", { to_agent_type: "other" }],
    ["fence_to_be", { fence_to_be: 9 }],
    ["offer_digest", { offer_digest: "0".repeat(64) }],
    ["deadline", { deadline: "2031-01-01T00:00:00.000Z" }],
    ["accepted_by", { accepted_by: "mallory" }],
  ])("finds another %s in the record of an open handoff", async (name, change) => {
    const { offer } = await place.offered();
    expect(await found()).toEqual([]);
    await edit(async (tx) => tx.set(keys.handoff(offer.handoff_id), encodeChecked({ ...offer, ...change })));
    expect(await found()).toEqual([["handoff", expect.stringMatching(new RegExp(`in: ${name}$`))]]);
  });

  test("finds an edited record of an ended handoff, before and after the next one", async () => {
    const task = await place.resumed();
    const { recovery } = await place.head(task);
    const record = await place.handoff(recovery!.handoff_id!);
    expect(record).toMatchObject({ state: "confirmed", accepted_by: "agent-2" });
    const change = { ...record, accepted_by: "agent-3" };
    await edit(async (tx) => tx.set(keys.handoff(record.handoff_id), encodeChecked(change)));
    const finding = ["handoff", expect.stringMatching(/in: accepted_by$/)];
    expect(await found()).toEqual([finding]);
    await place.fail(task);
    await place.attempt(task);
    expect((await place.head(task)).handoff_id).not.toBe(record.handoff_id);
    expect(await found()).toEqual([finding]);
  });

  test("finds a handoff that the trail did not begin", async () => {
    const { offer } = await place.offered();
    const id = offer.handoff_id.replace(/.$/, (last) => (last === "0" ? "1" : "0"));
    await edit(async (tx) => {
      tx.set(keys.handoff(id), encodeChecked({ ...offer, handoff_id: id, state: "cancelled", due_at: null }));
      tx.set(keys.taskHandoff(offer.task_id, id), new Uint8Array(0));
    });
    expect(await found()).toEqual([["handoff", "the task has 2 handoffs, and its trail began 1"]]);
  });

  test("finds a quarantine mark without an entry, and accepts one with an entry", async () => {
    const task = await place.owned(2);
    const { latest_id: id } = await place.head(task);
    await place.repository.quarantine("default", task, [
      { checkpoint_id: id, version: 1, reason: "hash mismatch" },
    ]);
    expect(await found()).toEqual([]);
    const { checkpoints } = await place.repository.history("default", {
      task_id: task,
      limit: 2,
      order: "oldest",
    });
    const first = checkpoints[0]!.metadata.checkpoint_id;
    const mark = { reason: "hash mismatch", at: new Date(0).toISOString(), by: "reader" };
    await edit(async (tx) => tx.set(keys.quarantine(task, first, 1), encode(mark)));
    expect(await found()).toEqual([
      ["audit", "the version is quarantined, and no entry of the trail records it"],
    ]);
    await edit(async (tx) => {
      tx.clear(keys.quarantine(task, first, 1));
      tx.clear(keys.quarantine(task, id!, 1));
    });
    expect(await found()).toEqual([["audit", "the version was quarantined, and its mark is lost"]]);
  });

  test("finds a deleted newest entry under a head that was rolled back, by the version", async () => {
    const { task, id } = await updated();
    const head = (await get(keys.task(task))) as Bytes;
    await update(id, task);
    const command = await commandOf(task, 4);
    await edit(async (tx) => {
      tx.set(keys.task(task), head);
      tx.clear(keys.audit(task, 4));
      tx.clear(keys.command(command));
    });
    expect(await foundInRecords()).toEqual([["audit", "entry 4, which it names, is not in the trail"]]);
  });

  test("finds a deleted newest entry under a head that was rolled back, by the command", async () => {
    const task = await place.owned(1);
    const head = (await get(keys.task(task))) as Bytes;
    await send(place.repository, "release", {}, { task, fence: 1 });
    await edit(async (tx) => {
      tx.set(keys.task(task), head);
      tx.clear(keys.audit(task, 3));
    });
    expect(await foundInRecords()).toEqual([
      ["command", expect.stringMatching(/names entry 3, which is not of this command/)],
    ]);
  });

  const commandOf = async (task: string, seq: number) =>
    String((await place.trail(task)).find((entry) => entry.seq === seq)?.command_id);

  test("finds a lost record of a command, and a command that was applied again without it", async () => {
    const { task, id } = await updated();
    const command = await commandOf(task, 3);
    await edit(async (tx) => tx.clear(keys.command(command)));
    expect(await found()).toEqual([["command", "entry 3: the record of its command is lost"]]);
    await update(id, task, command);
    expect(await found()).toEqual([["command", "entries 3 and 4: one command was applied twice"]]);
  });

  test("finds a command that was applied to two tasks", async () => {
    const { task } = await updated();
    const other = await updated();
    const command = await commandOf(task, 3);
    await edit(async (tx) => tx.clear(keys.command(command)));
    await update(other.id, other.task, command);
    expect(await found()).toEqual([["command", "entry 3: the record of its command is about another entry"]]);
  });

  test("finds an edited answer, and never gives it", async () => {
    const { task, id } = await updated();
    const command = await commandOf(task, 3);
    await editAnswer(command, (record) => ({ ...record, answer: { ...record.answer, version: 9 } }));
    expect(await found()).toEqual([["command", "entry 3: the record of its command is damaged"]]);
    await expect(update(id, task, command)).rejects.toMatchObject({ code: "CORRUPT" });
  });

  test("finds the answer of another command", async () => {
    const { task } = await updated();
    const [first, second] = [await commandOf(task, 2), await commandOf(task, 3)];
    await edit(async (tx) => tx.set(keys.command(second), (await tx.get(keys.command(first))) as Bytes));
    expect(await found()).toEqual([["command", "entry 3: the record of its command is damaged"]]);
  });

  test("finds a record of a command that was never applied", async () => {
    const { task } = await updated();
    const command = uuidv7();
    await edit(async (tx) => {
      const record = (await tx.get(keys.command(await commandOf(task, 3)))) as Bytes;
      const { request, answer } = openRemembered(record, {
        tenant: "default",
        command: await commandOf(task, 3),
      });
      const written = { tenant: "default", command, requestHash: request, answer, auditSeq: 3, nowMs: 0 };
      remember(tx, keys, written);
    });
    expect(await found()).toEqual([
      ["command", expect.stringMatching(/names entry 3, which is not of this command/)],
    ]);
  });

  test("accepts expired records, and records of an earlier version", async () => {
    const { task, id } = await updated();
    const command = await commandOf(task, 3);
    await editAnswer(command, ({ request, answer }) => ({ request, answer }));
    expect(await found()).toEqual([]);
    expect(await update(id, task, command)).toMatchObject({ replayed: true, version: 2 });
    place.now += LIMITS.idempotency_ms + 2 * 3_600_000;
    await edit(async (tx) => clearExpired(tx, place.now, 100));
    expect(await found()).toEqual([]);
  });

  test("finds a task of which every record was deleted", async () => {
    const { task, id } = await updated();
    const commands = (await place.trail(task)).map(({ command_id }) => String(command_id));
    await updated();
    expect(await found()).toEqual([]);
    await edit(async (tx) => {
      for (const command of commands) tx.clear(keys.command(command));
      const { end } = keys.auditRange(task);
      tx.clearRange({ begin: keys.audit(task, 1), end });
      tx.clear(keys.task(task));
      tx.clear(keys.order(task, 1));
      tx.clear(keys.id(id));
      tx.clear(keys.checkpoint(task, id));
      tx.clear(keys.version(task, id, 1));
    });
    expect(await foundInRecords()).toEqual([
      ["head", "the feed has transitions of the task, and all its records are lost"],
      ["record", "the store has fewer tasks than it counts"],
    ]);
  });

  test("finds lost entries of the search index, but not before the index has reached them", async () => {
    const { task, id } = await updated();
    const time = keys.index("time", "", idTime(id), id);
    expect(await found()).toEqual([]);
    for (let more = true; more; ) ({ more } = await stepIndex(place.store, async () => {}));
    expect(await get(time)).toBeDefined();
    expect(await found()).toEqual([]);
    const phase = keys.index("phase", "implementing", idTime(id), id);
    const lost = ["index", expect.stringMatching(/^entries of the search index are lost/)];
    for (const key of [phase, time]) {
      expect(await get(key)).toBeDefined();
      await edit(async (tx) => tx.clear(key));
      expect(await found()).toEqual([lost]);
    }
    await place.write(task, "agent-1", {});
    expect(await found()).toEqual([lost]);
  });

  test("finds a message that was inserted into the outbox", async () => {
    const { task } = await updated();
    const [sound] = await place.outbox(task);
    const { event } = sound as { event: FleetEvent };
    const inserted = [
      { ...event, id: `default/${task}/9`, sequence: 9 },
      { ...event, subject: "no-such-task", id: "default/no-such-task/1" },
      { ...event, id: `default/${task}/other`, audithash: "0".repeat(64) },
      event,
    ];
    for (const [n, one] of inserted.entries()) {
      await edit(async (tx) => appendEvent(tx, 1, one));
      expect(await found()).toHaveLength(n + 1);
    }
    expect((await found())[0]).toEqual(["event", expect.stringMatching(/no transition of the task made it/)]);
  });

  test("finds a signature that was set in a row, and never serves it", async () => {
    const task = await place.owned(1);
    const { latest_id: id } = await place.head(task);
    const row = keys.checkpoint(task, id!);
    await edit(async (tx) => {
      const members = decode<unknown[]>((await tx.get(row)) as Bytes);
      tx.set(row, encode(members.with(-1, "signed")));
    });
    const { findings } = await scrub(place, { quarantines: false });
    expect(findings).toMatchObject([
      { kind: "checkpoint", details: "the row has a signature that cannot be verified" },
    ]);
    await expect(place.repository.get("default", id!)).rejects.toMatchObject({ code: "CORRUPT" });
  });

  test("finds an entry that the lifecycle cannot have written", async () => {
    const task = await place.owned(1);
    const value = await get(keys.audit(task, 2));
    const text = decode<string>(value as Bytes).replace('"fence":1', '"fence":0');
    await edit(async (tx) => tx.set(keys.audit(task, 2), encode(text)));
    expect(await found()).not.toEqual([]);
  });
});
