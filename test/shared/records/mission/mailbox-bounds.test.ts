/** The bounds of a mailbox, and edits of its records. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { MessageRecord } from "../../../../shared/lifecycle/mission/mailbox.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { encodeRecord, openRecord } from "../../../../shared/records/mission/sealed-record.ts";
import type { Bytes } from "../../../../shared/store/store.ts";
import { createMailboxBench } from "../../../harness/records/mailbox-bench.ts";
import { completeSortie, MISSION } from "../../../harness/records/missions.ts";
import { send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const keys = tenantKeys("default");
const by = { task: MISSION, agent: "dispatch" };
const box = createMailboxBench();
const { post, acknowledge, list, ids } = box;

describe("the bounds of a mailbox", () => {
  beforeEach(() => box.open("memory"));
  afterEach(() => box.close());

  test("a mission refuses messages while too many are not delivered", async () => {
    for (let n = 0; n < LIMITS.open_messages_count_max; n += 1) await post(["specialist-1"]);
    await expect(post(["specialist-1"])).rejects.toMatchObject({ code: "CONFLICT" });
    await acknowledge("specialist-1", "msg-0001");
    expect(await post(["specialist-1"])).toMatchObject({ state: "queued" });
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

  test.each<[string, Bytes]>([
    ["mailbox", keys.mailbox(MISSION)],
    ["message/1", keys.message(MISSION, 1)],
    ["body/1", keys.messageBody(MISSION, 1)],
  ])("finds another or a lost %s", async (name, key) => {
    expect(await found()).toEqual([]);
    await change(key, (record) => ({ ...record, subject: "other", text: "other" }));
    expect(await found()).toContain(`${name} differs from the trail`);
    await box.current().store.transact(WRITE, async (tx) => tx.clear(key));
    expect(await found()).toEqual([`${name} is lost`]);
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
