/** Messages after a resumption, and events as messages (US-305, edge cases of seed 002) on real stores. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { findSilent, markSilent } from "../../../../shared/records/mission/silence.ts";
import { createMailboxBench } from "../../../harness/records/mailbox-bench.ts";
import { MISSION } from "../../../harness/records/missions.ts";
import { waitingEvents } from "../../../harness/records/outbox.ts";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const by = { task: MISSION, agent: "dispatch" };
const box = createMailboxBench();
const { post, acknowledge, cancel, subscribe, mailbox, list, ids, events, newest, snapshot, resume, sweep } =
  box;

describe.each(ENGINES)("the messages after a resumption, and events as messages, on %s", (engine) => {
  beforeEach(() => box.open(engine));
  afterEach(async () => {
    try {
      expect((await scrub(box.current())).findings).toEqual([]);
    } finally {
      await box.close();
    }
  });

  test("a resumption queues the messages of the snapshot again, once, and skips those delivered since", async () => {
    await post(["specialist-1"], { timeout_ms: 1_000 });
    await post(["specialist-2"], { timeout_ms: 60_000 });
    await post(["specialist-3"]);
    const checkpoint_id = await snapshot();
    await acknowledge("specialist-3", "msg-0003");
    box.advance(2_000);
    expect(await sweep()).toBe(1);
    const skipped_messages = [{ message_id: "msg-0003", reason: "delivered" }];
    const preview = await box.current().repository.missions.previewResumption("default", "dispatch", {
      mission_id: MISSION,
      checkpoint_id,
    });
    expect(preview).toMatchObject({
      restored: { messages: 2 },
      messages: [{ message_id: "msg-0001", to: ["specialist-1"] }, { message_id: "msg-0002" }],
      skipped_messages,
    });
    expect(await ids("specialist-1")).toEqual([]);
    const requeued_messages = ["msg-0001", "msg-0002"];
    expect(await resume({ checkpoint_id })).toMatchObject({
      restored: { messages: 2 },
      requeued_messages,
      skipped_messages,
    });
    expect(await ids("specialist-1")).toEqual(["msg-0001"]);
    const after = await list("dispatch");
    expect(await resume({ checkpoint_id })).toMatchObject({
      restored: { messages: 2 },
      requeued_messages: [],
      skipped_messages,
    });
    expect(await list("dispatch")).toEqual(after);
    expect(await events("messages_requeued")).toMatchObject([
      { checkpoint_id, message_ids: requeued_messages, to: ["specialist-1", "specialist-2"] },
    ]);
    expect(await events("fleet_recovered")).toMatchObject([
      { requeued_messages: 2 },
      { requeued_messages: 2 },
    ]);
    box.advance(2_000);
    expect(await sweep()).toBe(1);
    const again = await resume({ checkpoint_id });
    expect(again).toMatchObject({ restored: { messages: 1 }, requeued_messages: [] });
    expect(again.skipped_messages).toContainEqual({ message_id: "msg-0001", reason: "failed_again" });
    expect(again.blockers).toEqual([expect.stringContaining("also after it was queued again")]);
    // The checkpoint that the second failure wrote.
    const newest = await resume({});
    expect(newest.checkpoint_id).not.toBe(checkpoint_id);
    expect(newest.requeued_messages).toEqual([]);
  });

  test("a resumption skips a message that was cancelled since, also after it had failed", async () => {
    await post(["specialist-1"], { timeout_ms: 1_000 });
    await post(["specialist-2"]);
    box.advance(1_000);
    expect(await sweep()).toBe(1);
    const checkpoint_id = await snapshot();
    await cancel("dispatch", "msg-0001");
    await cancel("dispatch", "msg-0002");
    const skipped_messages = ["msg-0001", "msg-0002"].map((message_id) => ({
      message_id,
      reason: "cancelled",
    }));
    expect(await resume({ checkpoint_id })).toMatchObject({ requeued_messages: [], skipped_messages });
    expect(await ids("specialist-1")).toEqual([]);
  });

  test("002-edge the holders of foreign and expired locks get one notice each", async () => {
    const acquire = (agent: string, path: string, timeout_ms = 600_000) =>
      send(box.current().repository, "lock_acquire", { path, timeout_ms }, { task: MISSION, agent });
    await acquire("specialist-1", "a.ts");
    await acquire("specialist-2", "b.ts", 1_000);
    const checkpoint_id = await snapshot();
    await send(
      box.current().repository,
      "lock_release",
      { path: "a.ts" },
      { task: MISSION, agent: "specialist-1" },
    );
    await acquire("specialist-3", "a.ts");
    box.advance(2_000);
    const resumed = await resume({ checkpoint_id });
    expect(resumed.notified).toMatchObject([
      { agent_id: "specialist-3", path: "a.ts" },
      { agent_id: "specialist-2", path: "b.ts" },
    ]);
    expect((await mailbox("specialist-3")).messages).toMatchObject([
      { kind: "notice", from: "dispatch", subject: "specialist-1 needs a.ts" },
    ]);
    expect((await mailbox("specialist-2")).messages).toMatchObject([
      { subject: "Your lock on b.ts had expired" },
    ]);
    expect((await resume({ checkpoint_id })).notified).toEqual([]);
    box.advance(2 * LIMITS.message_timeout_ms_default);
    const before = (await newest())?.metadata.checkpoint_id;
    expect(await sweep()).toBe(2);
    expect((await newest())?.metadata.checkpoint_id).toBe(before);
  });

  test("events of the fleet reach the mailboxes that subscribe to them, in the transaction of the event", async () => {
    await subscribe("dispatch", ["fleet_checkpointed", "checkpoint_created", "mission_changed"]);
    await subscribe("specialist-1", ["fleet_checkpointed", "fleet_recovered"]);
    const checkpoint_id = await snapshot();
    await resume();
    const got = async (agent: string) => {
      const { messages } = await mailbox(agent);
      return messages.map(({ subject, body, kind, from }) => {
        expect([kind, from]).toEqual(["event", "fleet"]);
        expect(JSON.parse(body)).toMatchObject({
          type: subject,
          data: { mission_id: MISSION, checkpoint_id },
        });
        return subject;
      });
    };
    expect(await got("dispatch")).toEqual(["fleet_checkpointed", "checkpoint_created"]);
    expect(await got("specialist-1")).toEqual(["fleet_checkpointed", "fleet_recovered"]);
    const [first] = (await mailbox("dispatch")).messages;
    const id = JSON.parse(first!.body).id;
    expect((await waitingEvents(box.current().store, "fleet_checkpointed")).map((event) => event.id)).toEqual(
      [id],
    );
    await subscribe("specialist-1", []);
    await send(box.current().repository, "mission_update", { status: "cancelled" }, by);
    const end = { subject: "mission_changed", body: expect.stringContaining('"status_to":"cancelled"') };
    expect((await mailbox("dispatch")).messages).toContainEqual(expect.objectContaining(end));
    expect(await ids("specialist-1")).toHaveLength(2);
    expect((await mailbox("specialist-1")).subscribed).toEqual([]);
  });

  test("a silent mission tells its subscribers of the lost context", async () => {
    await subscribe("dispatch", ["context_compacted", "recovery_available"]);
    await snapshot();
    box.advance(400_000);
    const search = {
      store: box.current().store,
      incarnation: box.current().format.incarnation,
      service: "watchdog",
      now: box.now,
      silenceMs: 300_000,
      guard: async () => {},
    };
    for await (const places of findSilent(search))
      for (const place of places) await markSilent(search, place);
    expect((await mailbox("dispatch")).messages.map(({ subject }) => subject)).toEqual([
      "context_compacted",
      "recovery_available",
    ]);
    const { silence } = await box
      .current()
      .repository.missions.find("default", "dispatch", { mission_id: MISSION });
    expect(silence).not.toBeNull();
  });

  test("a subscriber that acknowledges nothing loses its subscription, and no checkpoint follows", async () => {
    await subscribe("dispatch", ["fleet_checkpointed"]);
    await subscribe("specialist-1", ["fleet_checkpointed"]);
    const reading = async () => {
      for (const id of await ids("specialist-1")) await acknowledge("specialist-1", id);
    };
    for (let n = 0; n <= LIMITS.open_events_count_max; n += 1) {
      await snapshot();
      await reading();
    }
    expect((await mailbox("dispatch")).subscribed).toEqual([]);
    expect((await mailbox("specialist-1")).subscribed).toEqual(["fleet_checkpointed"]);
    expect(await events("mailbox_subscribed")).toContainEqual({
      mission_id: MISSION,
      agent_id: "dispatch",
      events: [],
    });
    // Its events are in the snapshots, from which the mission resumes.
    const pending = (await box.pending()) as object[];
    expect(pending).toContainEqual(expect.objectContaining({ from: "fleet", subject: "fleet_checkpointed" }));
    const { checkpoint_id } = (await newest())!.metadata;
    expect(await resume()).toMatchObject({ checkpoint_id, passed_over: [] });
    const notices = (await mailbox("dispatch")).messages.filter(({ kind }) => kind === "notice");
    expect(notices).toMatchObject([
      { from: "fleet", subject: "Your subscription has ended", body: expect.stringContaining("msg-0001") },
    ]);
    const before = (await newest())?.metadata.checkpoint_id;
    box.advance(2 * LIMITS.mailbox_event_ms);
    expect(await sweep()).toBeGreaterThan(0);
    expect((await newest())?.metadata.checkpoint_id).toBe(before);
  });
});
