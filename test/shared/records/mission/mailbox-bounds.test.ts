/** The bounds of a mailbox, and edits of its records. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { MessageRecord } from "../../../../shared/lifecycle/mission/mailbox.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { OF_MESSAGES } from "../../../../shared/records/mission/mission-due.ts";
import { encodeRecord, openRecord } from "../../../../shared/records/mission/sealed-record.ts";
import type { Bytes } from "../../../../shared/store/store.ts";
import { createMailboxBench } from "../../../harness/records/mailbox-bench.ts";
import { completeSortie, MISSION } from "../../../harness/records/missions.ts";
import { send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const keys = tenantKeys("default");
const by = { task: MISSION, agent: "dispatch" };
const box = createMailboxBench();
const { post, acknowledge, list, ids, sweep } = box;

describe("the bounds of a mailbox", () => {
  beforeEach(() => box.open("memory"));
  afterEach(() => box.close());

  test("a mission refuses messages while too many are not delivered", async () => {
    for (let n = 0; n < LIMITS.open_messages_count_max; n += 1) await post(["specialist-1"]);
    await expect(post(["specialist-1"])).rejects.toMatchObject({ code: "CONFLICT" });
    await acknowledge("specialist-1", "msg-0001");
    expect(await post(["specialist-1"])).toMatchObject({ state: "queued" });
  });

  test("a specialist has a share, so that it cannot keep the others from sending", async () => {
    const from = (agent: string, body: object = {}) => post(["specialist-3"], body, { agent });
    const short = { timeout_ms: LIMITS.message_timeout_ms_min };
    for (let n = 0; n < LIMITS.sender_messages_count_max; n += 1) await from("specialist-1", short);
    await expect(from("specialist-1")).rejects.toMatchObject({
      code: "CONFLICT",
      message: "too many messages of the sender are not delivered",
      details: { from: "specialist-1", open: LIMITS.sender_messages_count_max },
    });
    expect(await from("specialist-2", short)).toMatchObject({ state: "queued" });
    expect(await post(["specialist-3"])).toMatchObject({ state: "queued" });
    expect(await from("human=olga")).toMatchObject({ state: "queued" });
    // Failed ones count, and its own oldest one makes room.
    box.advance(short.timeout_ms);
    expect(await sweep()).toBe(LIMITS.sender_messages_count_max + 1);
    for (let n = 0; n < 3; n += 1) await from("specialist-1");
    await box.snapshot();
    const pending = (await box.pending()) as { id: string }[];
    expect(pending.map(({ id }) => id)).not.toContain("msg-0003");
    expect(pending.map(({ id }) => id)).toContain("msg-0004");
    expect(pending).toHaveLength(LIMITS.sender_messages_count_max + 3);
  });

  test("failed messages of one sender do not displace those of another", async () => {
    const short = { timeout_ms: LIMITS.message_timeout_ms_min };
    const own = await post(["specialist-3"], short);
    for (let n = 1; n < LIMITS.open_messages_count_max; n += 1)
      await post(["specialist-3"], short, { agent: "human=olga" });
    box.advance(short.timeout_ms);
    expect(await sweep()).toBe(LIMITS.open_messages_count_max);
    for (let n = 0; n < 10; n += 1) await post(["specialist-3"], {}, { agent: "human=olga" });
    await box.snapshot();
    expect(await box.pending()).toContainEqual(expect.objectContaining({ id: own.message_id, failed: true }));
    expect(await box.pending()).toHaveLength(LIMITS.open_messages_count_max);
  });

  test("undelivered subjects are bounded in bytes, so that the snapshot fits into a checkpoint", async () => {
    const wide = { subject: "\u4e2d".repeat(LIMITS.message_subject_chars_max) };
    const to = Array.from(
      { length: LIMITS.message_recipients_count_max },
      (_, n) => `${"a".repeat(60)}-${n}`,
    );
    let sent = 0;
    await expect(async () => {
      for (; sent < LIMITS.open_messages_count_max; sent += 1) await post(to, wide);
    }).rejects.toMatchObject({ code: "CONFLICT", message: /not delivered/ });
    expect(sent).toBeGreaterThan(50);
    expect((await send(box.current().repository, "mission_checkpoint", {}, by)).message_count).toBe(sent);
  });

  test("the place of a message that is over is used again, and its id is not found any more", async () => {
    await post(["specialist-3"], { subject: "stays", timeout_ms: LIMITS.message_timeout_ms_max });
    for (let n = 0; n < LIMITS.mission_messages_count_max; n += 1) {
      const { message_id } = await post(["specialist-1"]);
      await acknowledge("specialist-1", message_id);
    }
    expect(await ids("specialist-3")).toEqual(["msg-0001"]);
    await expect(acknowledge("specialist-1", "msg-0002")).rejects.toMatchObject({ code: "NOT_FOUND" });
    const { messages } = await list("dispatch", { limit: 3 });
    expect(messages.map(({ message_id }) => message_id)).toEqual(["msg-1002", "msg-1000", "msg-0999"]);
    expect((await scrub(box.current())).findings).toEqual([]);
  }, 120_000);
});

describe("edits of the records of a mailbox, which the scrub finds (guarantee 13)", () => {
  const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
  beforeEach(async () => {
    await box.open("memory");
    await completeSortie(box.current().repository, 1);
    await post(["specialist-1"], { body: "before noon" });
  });
  afterEach(() => box.close());

  const found = async () => {
    const passes = [await scrub(box.current()), await scrub(box.current(), { stepBytes: 1_000 })];
    const [large, tiny] = passes.map(({ findings }) => findings.map(({ details }) => details).sort());
    expect(tiny).toEqual(large);
    return large!;
  };
  const change = (key: Bytes, edit: (record: object) => object) =>
    box.current().store.transact(WRITE, async (tx) => {
      const { value, auditSeq } = openRecord<object>((await tx.get(key)) as Bytes);
      tx.set(key, encodeRecord(edit(value), auditSeq));
    });

  const UNFOUNDED = "the mission is among those whose messages fail, and none of its messages fails then";

  test.each<[string, Bytes, string[]]>([
    ["mailbox", keys.mailbox(MISSION), [UNFOUNDED]],
    ["message/1", keys.message(MISSION, 1), []],
    ["body/1", keys.messageBody(MISSION, 1), []],
  ])("finds another or a lost %s", async (name, key, more) => {
    expect(await found()).toEqual([]);
    await change(key, (record) => ({ ...record, subject: "other", text: "other" }));
    expect(await found()).toContain(`${name} differs from the trail`);
    await box.current().store.transact(WRITE, async (tx) => tx.clear(key));
    expect(await found()).toEqual([`${name} is lost`, ...more]);
  });

  test("finds a lost and a foreign entry of the index by time", async () => {
    const { deadline } = (await list("dispatch")).messages[0]!;
    const at = (ms: number) => systemKeys.missionDue(ms, "default", MISSION, OF_MESSAGES);
    const due = Date.parse(deadline);
    await box.current().store.transact(WRITE, async (tx) => tx.clear(at(due)));
    expect(await found()).toEqual(["the mission is not among those whose messages fail"]);
    await box.current().store.transact(WRITE, async (tx) => {
      tx.set(at(due), new Uint8Array(0));
      tx.set(at(due + 1), new Uint8Array(0));
    });
    expect(await found()).toEqual([UNFOUNDED]);
  });

  test("finds a message from an older copy of the store, and an inserted one", async () => {
    const older = (await box.current().store.transact(WRITE, (tx) => tx.get(keys.message(MISSION, 1))))
      .value as Bytes;
    await acknowledge("specialist-1", "msg-0001");
    await box.current().store.transact(WRITE, async (tx) => tx.set(keys.message(MISSION, 1), older));
    expect(await found()).toEqual(["message/1 is older than the trail"]);
    const { value, auditSeq } = openRecord<MessageRecord>(older);
    const inserted = encodeRecord({ ...value, number: 7, message_id: "msg-0007" }, auditSeq);
    await box.current().store.transact(WRITE, async (tx) => tx.set(keys.message(MISSION, 7), inserted));
    expect(await found()).toContain(`message/7 names entry ${auditSeq}, which does not state it`);
  });
});
