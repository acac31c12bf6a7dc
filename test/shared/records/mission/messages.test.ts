/** Messages of a mission: delivery, rights, pages and failures (US-301, US-302) on real stores. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { createMailboxBench } from "../../../harness/records/mailbox-bench.ts";
import { MISSION } from "../../../harness/records/missions.ts";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const by = { task: MISSION, agent: "dispatch" };
const box = createMailboxBench();
const { post, acknowledge, cancel, mailbox, list, ids, events, newest, pending, sweep } = box;

describe.each(ENGINES)("a message on %s", (engine) => {
  beforeEach(() => box.open(engine));
  afterEach(async () => {
    try {
      expect((await scrub(box.current())).findings).toEqual([]);
    } finally {
      await box.close();
    }
  });

  test("is in the mailbox of each recipient until that one acknowledges it, which is its receipt", async () => {
    const { message_id } = await post(["specialist-1", "specialist-2"], { body: "before noon" });
    const [shown] = (await mailbox("specialist-1")).messages;
    expect(shown).toMatchObject({
      message_id,
      kind: "message",
      from: "dispatch",
      to: ["specialist-1", "specialist-2"],
      subject: "Review auth changes",
      body: "before noon",
      state: "queued",
    });
    expect(await ids("dispatch")).toEqual([]);
    expect(await acknowledge("specialist-1", message_id)).toMatchObject({
      state: "queued",
      received_by: ["specialist-1"],
      missing: ["specialist-2"],
    });
    expect([await ids("specialist-1"), await ids("specialist-2")]).toEqual([[], [message_id]]);
    expect(await acknowledge("specialist-1", message_id)).toMatchObject({ state: "queued" });
    expect(await acknowledge("specialist-2", message_id)).toMatchObject({ state: "delivered", missing: [] });
    expect(await acknowledge("specialist-2", message_id)).toMatchObject({ state: "delivered" });
    const [done] = (await list("dispatch")).messages;
    expect(done?.receipts.map(({ agent_id }) => agent_id)).toEqual(["specialist-1", "specialist-2"]);
  });

  test("its sender is the caller, and its event and its audit entry hold no text of it", async () => {
    await post(["specialist-1"], { subject: "top secret subject", from: "mallory" });
    const [event] = await events("message_sent");
    expect(event).toMatchObject({ from: "dispatch", to: ["specialist-1"] });
    const trail = await box
      .current()
      .repository.audit("default", { task_id: MISSION, from_seq: 1, limit: 100 });
    expect(JSON.stringify([event, trail])).not.toContain("secret subject");
  });

  test("secrets are left out of its texts", async () => {
    await post(["specialist-1"], { body: "use ghp_0123456789abcdefghijklmnopqrstuvwxyzAB" });
    expect((await mailbox("specialist-1")).messages[0]?.body).not.toContain("ghp_");
  });

  test("only agents that take part and people send, and only recipients acknowledge", async () => {
    await send(box.current().repository, "take", {}, by);
    await expect(post(["specialist-1"], {}, { agent: "stranger" })).rejects.toMatchObject({ code: "FENCED" });
    const { message_id } = await post(["specialist-1"], {}, { agent: "specialist-2" });
    expect(await post(["specialist-1"], {}, { agent: "human=olga" })).toMatchObject({ state: "queued" });
    expect(await post(["specialist-1"], {}, { fence: 1 })).toMatchObject({ state: "queued" });
    await expect(acknowledge("specialist-2", message_id)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(acknowledge("specialist-1", "msg-0099")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(post([], {})).rejects.toMatchObject({ code: "INVALID" });
    await expect(post(["two words"], {})).rejects.toMatchObject({ code: "INVALID" });
    await expect(post(["fleet"], {})).rejects.toMatchObject({ code: "INVALID" });
  });

  test("a subject is one line that is not blank, and a body has no NUL", async () => {
    const refused = async (text: object) => {
      const fields = [expect.objectContaining({ path: Object.keys(text)[0] })];
      await expect(post(["specialist-1"], text)).rejects.toMatchObject({ code: "INVALID", fields });
    };
    for (const subject of ["", "  ", "\u00a0", "a\u0000b", "two\nlines", "\u001b[2J", "\u0085"])
      await refused({ subject });
    await refused({ body: "a\u0000b" });
    expect(await post(["specialist-1"], { subject: " \u4e2d ", body: "two\n\tlines" })).toMatchObject({
      state: "queued",
    });
  });

  test("its answer names recipients without a part in the mission, which get it nevertheless", async () => {
    const to = ["specialist-1", "speciallist-2", "human=olga", "dispatch"];
    expect(await post(to)).toMatchObject({ unknown: ["speciallist-2"] });
    expect(await ids("speciallist-2")).toEqual(["msg-0001"]);
    expect(await post(["specialist-1"])).not.toHaveProperty("unknown");
  });

  test("its sender, the coordinator and people cancel it while it is not delivered", async () => {
    await send(box.current().repository, "take", {}, by);
    const of = async (agent: string) => (await post(["specialist-3"], {}, { agent })).message_id;
    const first = await of("specialist-1");
    await expect(cancel("specialist-2", first)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(cancel("specialist-3", first)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(cancel("stranger", first)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(cancel("specialist-1", "msg-0099")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await cancel("specialist-1", first)).toMatchObject({
      state: "cancelled",
      missing: ["specialist-3"],
    });
    expect(await cancel("specialist-1", first)).toMatchObject({ state: "cancelled" });
    for (const agent of ["dispatch", "human=olga"])
      expect(await cancel(agent, await of("specialist-1"))).toMatchObject({ state: "cancelled" });
    expect(await ids("specialist-3")).toEqual([]);
    expect((await mailbox("specialist-3", { all: true })).messages).toMatchObject([
      { mission_id: MISSION, message_id: "msg-0003", state: "cancelled", ended_at: expect.any(String) },
      { message_id: "msg-0002" },
      { message_id: "msg-0001" },
    ]);
    // The recipient had read it already: its receipt is kept, and the message stays cancelled.
    expect(await acknowledge("specialist-3", first)).toMatchObject({ state: "cancelled", missing: [] });
    const delivered = await of("specialist-1");
    await acknowledge("specialist-3", delivered);
    await expect(cancel("specialist-1", delivered)).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await events("message_cancelled")).toMatchObject([
      { message_id: first, from: "specialist-1", agent_id: "specialist-1" },
      { message_id: first },
      { agent_id: "dispatch" },
      { agent_id: "human=olga" },
    ]);
    box.advance(2 * LIMITS.message_timeout_ms_default);
    expect(await sweep()).toBe(0);
  });

  test("after its deadline it is counted, and shown among all", async () => {
    await post(["specialist-1", "specialist-2"], { timeout_ms: 1_000 });
    await acknowledge("specialist-2", "msg-0001");
    box.advance(1_000);
    expect(await sweep()).toBe(1);
    expect(await mailbox("specialist-1")).toMatchObject({ messages: [], failed: 1 });
    expect(await mailbox("specialist-2")).toMatchObject({ messages: [], failed: 0 });
    expect((await mailbox("specialist-1", { all: true })).messages).toMatchObject([{ state: "failed" }]);
    await acknowledge("specialist-1", "msg-0001");
    expect(await mailbox("specialist-1")).toMatchObject({ messages: [], failed: 0 });
  });

  test("the coordinator and people see all messages, other agents those that concern them", async () => {
    await send(box.current().repository, "take", {}, by);
    await post(["specialist-2"], {}, { agent: "specialist-1" });
    await post(["specialist-3"], {}, { fence: 1 });
    const seen = async (agent: string) => (await list(agent)).messages.map(({ message_id }) => message_id);
    expect(await seen("dispatch")).toEqual(["msg-0002", "msg-0001"]);
    expect(await seen("human=olga")).toEqual(["msg-0002", "msg-0001"]);
    expect(await seen("specialist-1")).toEqual(["msg-0001"]);
    expect(await seen("specialist-3")).toEqual(["msg-0002"]);
    expect(await seen("stranger")).toEqual([]);
    const other = box.current().repository.missions.messages("other", "human=olga", {
      mission_id: MISSION,
      limit: 9,
    });
    await expect(other).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("pages follow each other without gap, also when messages are acknowledged between them", async () => {
    for (let n = 0; n < 5; n += 1) await post(["specialist-1"], { subject: `part ${n}` });
    const seen: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await mailbox("specialist-1", { limit: 2, ...(cursor !== undefined && { cursor }) });
      for (const { message_id, subject } of page.messages) {
        seen.push(subject);
        await acknowledge("specialist-1", message_id);
      }
      cursor = page.cursor;
      if (cursor === undefined) break;
    }
    expect(seen).toEqual([0, 1, 2, 3, 4].map((n) => `part ${n}`));
    await post(["specialist-1"], { subject: "new" });
    const all: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await mailbox("specialist-1", { all: true, limit: 4, ...(cursor && { cursor }) });
      all.push(...page.messages.map(({ subject }) => subject));
      cursor = page.cursor;
      if (cursor === undefined) break;
    }
    expect(all).toEqual(["new", ...[4, 3, 2, 1, 0].map((n) => `part ${n}`)]);
  });

  test("US-301 a checkpoint includes the pending messages, in the shape of the seed", async () => {
    const first = await post(["specialist-1"]);
    const second = await post(["specialist-2", "specialist-3"], { subject: "Merge" });
    await acknowledge("specialist-1", first.message_id);
    await acknowledge("specialist-3", second.message_id);
    expect(await send(box.current().repository, "mission_checkpoint", {}, by)).toMatchObject({
      message_count: 1,
    });
    expect(await pending()).toEqual([
      {
        id: second.message_id,
        from: "dispatch",
        to: ["specialist-2", "specialist-3"],
        subject: "Merge",
        sent_at: expect.any(String),
        delivered: false,
      },
    ]);
    expect((await events("fleet_checkpointed")).at(-1)).toMatchObject({ message_count: 1 });
  });

  test("US-302 a message that is not delivered in time writes an error checkpoint, once", async () => {
    await post(["specialist-1", "specialist-2"], { timeout_ms: 1_000 });
    await post(["specialist-3"], { timeout_ms: 60_000 });
    await acknowledge("specialist-1", "msg-0001");
    expect(await sweep()).toBe(0);
    box.advance(2_000);
    expect(await sweep()).toBe(1);
    const blocker =
      'Message msg-0001 of dispatch, "Review auth changes", was not acknowledged in time by specialist-2';
    const made = await newest();
    expect(made).toMatchObject({
      metadata: {
        agent_id: "writer",
        trigger: { reason: "error", details: `MessageDeliveryFailure: ${blocker}` },
      },
      fleet: {
        recovery_context: { blockers: [blocker] },
        pending_messages: [{ id: "msg-0001", failed: true }, { id: "msg-0002" }],
      },
    });
    expect(await sweep()).toBe(0);
    expect((await newest())?.metadata.checkpoint_id).toBe(made?.metadata.checkpoint_id);
    expect(await events("message_failed")).toMatchObject([
      { message_id: "msg-0001", from: "dispatch", missing: ["specialist-2"] },
    ]);
    expect(await ids("specialist-2")).toEqual([]);
    expect(await acknowledge("specialist-2", "msg-0001")).toMatchObject({ state: "delivered" });
  });

  test("many messages fail in several transactions, each with its checkpoint", async () => {
    const wide = { subject: "\u4e2d".repeat(LIMITS.message_subject_chars_max), timeout_ms: 60_000 };
    for (let n = 0; n < 60; n += 1) await post(["specialist-1"], wide);
    box.advance(60_000);
    expect(await sweep()).toBe(60);
    expect((await list("dispatch", { state: "failed" })).messages).toHaveLength(60);
    // A resumption can queue all of them again.
    expect(await send(box.current().repository, "mission_checkpoint", {}, by)).toMatchObject({
      message_count: 60,
      failed_message_count: 60,
    });
    expect(await pending()).toEqual(
      Array.from({ length: 60 }, () => expect.objectContaining({ delivered: false, failed: true })),
    );
    expect((await box.resume()).requeued_messages).toHaveLength(60);
  });

  test("a mission that has ended keeps its final checkpoint, and takes receipts", async () => {
    await post(["specialist-1"], { timeout_ms: 1_000 });
    await post(["specialist-2"], { timeout_ms: 60_000 });
    const { checkpoint_id } = await send(
      box.current().repository,
      "mission_update",
      { status: "cancelled" },
      by,
    );
    await expect(post(["specialist-1"])).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await acknowledge("specialist-2", "msg-0002")).toMatchObject({ state: "delivered" });
    box.advance(2_000);
    expect(await sweep()).toBe(1);
    expect((await newest())?.metadata.checkpoint_id).toBe(checkpoint_id);
  });
});
