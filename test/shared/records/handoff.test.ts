// Handoffs: every move by example, every bad input with its end, and any sequence of commands and coordinators' moves against what must
// always hold.

import fc from "fast-check";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createChainVerifier } from "../../../shared/integrity/chain.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import {
  HANDOFF_TABLE,
  type Handoff,
  type HandoffState,
  isOpenHandoff,
} from "../../../shared/protocol/handoff.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { offerSchema } from "../../../shared/protocol/offer.ts";
import type { CommandOp } from "../../../shared/protocol/subjects.ts";
import { parseHandoffDue, systemKeys } from "../../../shared/records/keyspace.ts";
import { isOffer, type OutboxEntry, readOutbox } from "../../../shared/records/outbox.ts";
import { acknowledge, initiate, offer, offering } from "../../harness/handoffs.ts";
import { type Bench, create, ENGINES, finalize, input, openBench, send } from "../../harness/records.ts";

type Entry = Record<string, unknown>;

async function refusal(promise: Promise<unknown>): Promise<FleetError> {
  const error = await promise.then(
    () => new Error("it was accepted"),
    (reason: unknown) => reason,
  );
  if (error instanceof FleetError) return error;
  throw error;
}

const handingOff = () => input({ phase: "handoff" });

describe.each(ENGINES)("handoffs on %s", (engine) => {
  let bench: Bench;
  let now = Date.now();
  let tasks = 0;
  const fresh = (): string => {
    tasks += 1;
    return `task-${tasks}`;
  };

  beforeAll(async () => {
    bench = await openBench(engine, () => now);
  });
  afterAll(() => bench.close());

  const head = (task: string) => bench.repository.task("default", task);
  const handoff = (id: string) => bench.repository.handoff("default", { handoff_id: id });
  const reading = { label: "test", deadlineMs: 5_000 } as const;

  async function trail(task: string): Promise<Entry[]> {
    const { entries } = await bench.repository.audit("default", { task_id: task, from_seq: 1, limit: 500 });
    return entries.map(({ entry }) => JSON.parse(entry) as Entry);
  }

  async function outbox(task: string): Promise<OutboxEntry[]> {
    const partitions = await bench.store.read(reading, (reader) =>
      Promise.all(Array.from({ length: 8 }, (_, partition) => readOutbox(reader, partition, 10_000))),
    );
    return partitions.flatMap(({ entries }) => entries).filter(({ event }) => event.subject === task);
  }

  async function due(): Promise<{ id: string; dueMs: number }[]> {
    const range = systemKeys.handoffsDueBefore(Number.MAX_SAFE_INTEGER);
    const { rows } = await bench.store.read(reading, (reader) => reader.getRange(range, { limit: 10_000 }));
    return rows.map(({ key }) => parseHandoffDue(key));
  }

  /** A task with a checkpoint by an owner, handed off by it. */
  async function requested(changes: { owner?: string } = {}) {
    const task = fresh();
    const { owner = "giver" } = changes;
    await send(bench.repository, "take", {}, { task, agent: owner });
    const checkpoint = await create(bench.repository, {
      task,
      agent: owner,
      fence: 1,
      checkpoint: handingOff(),
    });
    return { task, id: checkpoint.checkpoint_id };
  }

  async function offered() {
    const { task, id } = await requested();
    return { task, id, offer: await offer(bench.repository, id) };
  }

  async function accepted() {
    const { task, id, offer } = await offered();
    await acknowledge(bench.repository, offer, { agent: "taker" });
    return { task, id };
  }

  test("a checkpoint in phase handoff opens one: two transitions, two entries, two events, one answer", async () => {
    const task = fresh();
    await create(bench.repository, { task });
    const commandId = uuidv7();
    const answer = await send(
      bench.repository,
      "create",
      {
        checkpoint: handingOff(),
        handoff: { to_agent_type: "qa", next_phase: "testing", reason: "written" },
      },
      { task, commandId },
    );
    expect(answer).toMatchObject({ handoff_id: commandId, checkpoint_id: commandId });
    expect(await head(task)).toMatchObject({ state: "handing_off", handoff_id: commandId, audit_seq: 3 });
    expect((await trail(task)).slice(1)).toMatchObject([
      { op: "create", command_id: commandId, state_to: "active", new_hash: answer.hash },
      { op: "handoff", command_id: commandId, state_from: "active", state_to: "handing_off" },
    ]);
    expect((await outbox(task)).slice(1).map(({ event }) => [event.type, event.data])).toMatchObject([
      ["CHECKPOINT_CREATED", { checkpointId: commandId }],
      [
        "AGENT_HANDOFF",
        { handoffId: commandId, fromCheckpoint: commandId, toAgent: "qa", fromAgent: "agent-1" },
      ],
    ]);
    expect(await handoff(commandId)).toMatchObject({
      state: "requested",
      checkpoint_id: commandId,
      checkpoint_hash: answer.hash,
      from_agent: "agent-1",
      from_agent_type: "implementation",
      to_agent_type: "qa",
      next_phase: "testing",
      reason: "written",
      due_at: new Date(now + LIMITS.handoff_overlooked_ms).toISOString(),
    });
  });

  test("any other checkpoint leaves no trace of handoffs", async () => {
    const task = fresh();
    const answer = await create(bench.repository, { task });
    expect(answer).not.toHaveProperty("handoff_id");
    expect(await head(task)).toMatchObject({ handoff_id: null, audit_seq: 1 });
    expect(await bench.repository.handoffs("default", { task_id: task, limit: 5 })).toEqual({ handoffs: [] });
  });

  test("from the request to the first checkpoint: one owner at each moment, and each move on record", async () => {
    const { task, id } = await requested();
    const validated = await bench.repository.validateHandoff("default", id, { toAgentType: "qa" });
    expect(validated).toMatchObject({ applied: true, handoff: { state: "validated", to_agent_type: "qa" } });
    expect(await head(task)).toMatchObject({ owner: "giver", fence: 1 });
    const made = await bench.repository.offerHandoff("default", id, offering(validated.handoff as Handoff));
    expect(made.handoff).toMatchObject({ state: "offered", attempt: 1, fence_to_be: 2 });
    expect((await refusal(create(bench.repository, { task, agent: "taker", fence: 2 }))).code).toBe(
      "INVALID",
    );
    const answer = await acknowledge(bench.repository, made.handoff as Handoff, { agent: "taker" });
    expect(answer).toMatchObject({ owner: "taker", fence: 2, handoff_id: id, checkpoint_id: id });
    expect(answer.deadline).toBe(new Date(now + 900_000).toISOString());
    expect((await refusal(create(bench.repository, { task, agent: "giver", fence: 1 }))).code).toBe("FENCED");
    expect(await head(task)).toMatchObject({ state: "active", owner: "taker", fence: 2, handoff_id: id });
    const first = await create(bench.repository, { task, agent: "taker", fence: 2 });
    expect(await handoff(id)).toMatchObject({
      state: "confirmed",
      first_checkpoint_id: first.checkpoint_id,
      deadline: null,
      due_at: null,
      failure: null,
    });
    expect(await head(task)).toMatchObject({ handoff_id: null, owner: "taker" });
    expect((await trail(task)).map(({ op, handoff_to }) => [op, handoff_to])).toEqual([
      ["take", undefined],
      ["create", undefined],
      ["handoff", "requested"],
      ["validate", "validated"],
      ["offer", "offered"],
      ["acknowledge", "accepted"],
      ["create", undefined],
      ["confirm", "confirmed"],
    ]);
    const events = (await outbox(task)).filter((entry) => !isOffer(entry)).map(({ event }) => event.type);
    expect(events.slice(2)).toEqual([
      "AGENT_HANDOFF",
      "HANDOFF_VALIDATED",
      "HANDOFF_OFFERED",
      "HANDOFF_ACKNOWLEDGED",
      "CHECKPOINT_CREATED",
      "HANDOFF_CONFIRMED",
    ]);
  });

  test("the offer stands in the outbox behind its event, and holds what a taker needs", async () => {
    const { task, id } = await offered();
    const entries = await outbox(task);
    const made = entries.at(-1) as OutboxEntry;
    expect(entries.at(-2)?.event.type).toBe("HANDOFF_OFFERED");
    const parsed = offerSchema.parse(JSON.parse(made.json));
    expect(parsed).toMatchObject({
      id: `${id}/1`,
      subject: task,
      data: { handoff_id: id, agent_type: "qa", fence_to_be: 2, attempt: 1, prompt: "Go on where it says." },
    });
    const again = await bench.repository.offerHandoff("default", id, offering(await handoff(id)));
    expect(again.handoff).toMatchObject({ state: "offered", attempt: 2 });
    expect((await outbox(task)).filter(isOffer).map(({ event }) => event.id)).toEqual([`${id}/1`, `${id}/2`]);
  });

  test.each([
    ["a prompt over its limit", "x".repeat(LIMITS.prompt_bytes_max + 1)],
    ["one that JSON makes too large", "\u0001".repeat(LIMITS.prompt_bytes_max)],
  ])("%s is refused, and nothing is offered", async (_, prompt) => {
    const { task, id } = await requested();
    await bench.repository.validateHandoff("default", id, { toAgentType: "qa" });
    const error = await refusal(
      bench.repository.offerHandoff("default", id, offering(await handoff(id), { prompt })),
    );
    expect(error).toMatchObject({ code: "TOO_LARGE" });
    expect(await handoff(id)).toMatchObject({ state: "validated", attempt: 0 });
    expect((await outbox(task)).filter(isOffer)).toEqual([]);
    const largest =
      "\n".repeat(LIMITS.prompt_bytes_max / 2) + "x".repeat(LIMITS.prompt_bytes_max / 2 - 9_000);
    const fits = await bench.repository.offerHandoff(
      "default",
      id,
      offering(await handoff(id), { prompt: largest }),
    );
    expect(fits.applied).toBe(true);
  });

  describe("a bad acknowledgement leaves everything as it was", () => {
    async function refused(task: string, attempt: () => Promise<unknown>): Promise<FleetError> {
      const before = await head(task);
      const error = await refusal(attempt());
      expect(await head(task)).toEqual(before);
      return error;
    }

    test("of two at once exactly one has the task; the other is told who", async () => {
      const { task, offer: made } = await offered();
      const agents = Array.from({ length: 20 }, (_, i) => `taker-${i}`);
      const results = await Promise.allSettled(
        agents.map((agent) => acknowledge(bench.repository, made, { agent })),
      );
      const won = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
      expect(won).toHaveLength(1);
      for (const result of results) {
        if (result.status === "fulfilled") continue;
        expect(result.reason).toMatchObject({
          code: "CONFLICT",
          details: { state: "accepted", accepted_by: won[0]?.owner },
        });
      }
      expect(await head(task)).toMatchObject({ owner: won[0]?.owner, fence: 2 });
    });

    test("by another type, of another checkpoint, of an unknown handoff or another task's", async () => {
      const { task, offer: made } = await offered();
      const ack =
        (body: Entry, by = task) =>
        () =>
          acknowledge(bench.repository, made, { body, task: by });
      const wrong = await refused(task, ack({ agent_type: "architecture" }));
      expect(wrong).toMatchObject({ code: "INVALID", fields: [{ path: "agent_type" }] });
      const other = await refused(task, ack({ checkpoint_id: uuidv7() }));
      expect(other).toMatchObject({ code: "INVALID", fields: [{ path: "checkpoint_id" }] });
      expect((await refused(task, ack({ handoff_id: uuidv7() }))).code).toBe("NOT_FOUND");
      const elsewhere = fresh();
      await create(bench.repository, { task: elsewhere });
      expect((await refused(elsewhere, ack({}, elsewhere))).code).toBe("NOT_FOUND");
      expect((await refusal(ack({}, fresh())())).code).toBe("NOT_FOUND");
      expect((await handoff(made.handoff_id)).state).toBe("offered");
    });

    test("after the deadline, until it is offered again", async () => {
      const { task, id, offer: made } = await offered();
      now += 60_001;
      const late = await refused(task, () => acknowledge(bench.repository, made));
      expect(late).toMatchObject({
        code: "CONFLICT",
        details: { state: "offered", deadline: made.deadline },
      });
      const again = await bench.repository.offerHandoff("default", id, offering(made));
      expect(again.applied).toBe(true);
      expect(await acknowledge(bench.repository, made, { agent: "late" })).toMatchObject({ owner: "late" });
    });

    test.each<[HandoffState, (task: string, id: string) => Promise<unknown>]>([
      ["cancelled", (task) => send(bench.repository, "cancel_handoff", {}, { task, fence: 1 })],
      [
        "escalated",
        (_, id) => bench.repository.escalateHandoff("default", id, { attempt: 1, reason: "no_agent" }),
      ],
      [
        "confirmed",
        async (task, id) => {
          await acknowledge(bench.repository, await handoff(id), { agent: "first" });
          await create(bench.repository, { task, agent: "first", fence: 2 });
        },
      ],
    ])("of one that is %s", async (state, end) => {
      const { task, id, offer: made } = await offered();
      await end(task, id);
      const error = await refused(task, () => acknowledge(bench.repository, made, { agent: "other" }));
      expect(error).toMatchObject({ code: "CONFLICT", details: { handoff_id: id, state } });
    });

    test("of one that nobody has offered yet", async () => {
      const { task, id } = await requested();
      const error = await refused(task, async () =>
        acknowledge(bench.repository, await handoff(id), { body: { agent_type: "qa" } }),
      );
      expect(error).toMatchObject({ code: "CONFLICT", details: { state: "requested" } });
    });
  });

  test("the same acknowledgement again gets the same answer, also after the handoff went on", async () => {
    const { task, offer: made } = await offered();
    const commandId = uuidv7();
    const first = await acknowledge(bench.repository, made, { agent: "taker", commandId });
    await create(bench.repository, { task, agent: "taker", fence: 2 });
    const again = await acknowledge(bench.repository, made, { agent: "taker", commandId });
    expect(again).toEqual({ ...first, replayed: true });
  });

  describe("initiated by command", () => {
    test("of the latest checkpoint or of the one that is named; it has an id of its own", async () => {
      const task = fresh();
      const one = await create(bench.repository, { task });
      const two = await create(bench.repository, { task });
      const answer = await initiate(bench.repository, { task });
      expect(answer).toMatchObject({ state: "requested", checkpoint_id: two.checkpoint_id });
      expect(answer.handoff_id).toBe(answer.command_id);
      await send(bench.repository, "cancel_handoff", { reason: "no" }, { task });
      const named = await initiate(bench.repository, { task, body: { checkpoint_id: one.checkpoint_id } });
      expect(named.checkpoint_id).toBe(one.checkpoint_id);
      expect(await handoff(named.handoff_id)).toMatchObject({
        checkpoint_hash: one.hash,
        to_agent_type: null,
      });
    });

    test("is refused while one is open, without a checkpoint, and on a task that has ended", async () => {
      const { task, id } = await requested();
      expect(await refusal(initiate(bench.repository, { task, fence: 1 }))).toMatchObject({
        code: "CONFLICT",
        details: { handoff_id: id, state: "requested" },
      });
      const empty = fresh();
      expect((await refusal(initiate(bench.repository, { task: empty }))).code).toBe("NOT_FOUND");
      await send(bench.repository, "take", {}, { task: empty });
      expect((await refusal(initiate(bench.repository, { task: empty, fence: 1 }))).code).toBe("NOT_FOUND");
      const ended = fresh();
      const { checkpoint_id: last } = await create(bench.repository, { task: ended });
      await finalize(bench.repository, last, "failed", { task: ended });
      expect((await refusal(initiate(bench.repository, { task: ended }))).code).toBe("CONFLICT");
      const body = { checkpoint_id: last };
      const other = fresh();
      await create(bench.repository, { task: other });
      expect((await refusal(initiate(bench.repository, { task: other, body }))).code).toBe("NOT_FOUND");
    });
  });

  describe("cancelled", () => {
    test("by whoever has the task, which goes on with it", async () => {
      const { task, id } = await requested();
      expect((await refusal(send(bench.repository, "cancel_handoff", {}, { task }))).code).toBe("FENCED");
      const body = { handoff_id: id, reason: "a test is missing" };
      expect(await send(bench.repository, "cancel_handoff", body, { task, fence: 1 })).toMatchObject({
        state: "cancelled",
        handoff_id: id,
      });
      expect(await head(task)).toMatchObject({ state: "active", owner: "giver", fence: 1, handoff_id: null });
      expect(await handoff(id)).toMatchObject({
        state: "cancelled",
        failure: { reason: "withdrawn", details: "a test is missing" },
      });
      expect((await outbox(task)).at(-1)?.event).toMatchObject({
        type: "HANDOFF_FAILED",
        data: { handoffId: id, state: "cancelled", reason: "withdrawn" },
      });
      const again = await refusal(send(bench.repository, "cancel_handoff", body, { task, fence: 1 }));
      expect(again).toMatchObject({ code: "CONFLICT", details: { state: "cancelled" } });
      expect((await refusal(send(bench.repository, "cancel_handoff", {}, { task, fence: 1 }))).code).toBe(
        "CONFLICT",
      );
      const unknown = { handoff_id: uuidv7() };
      expect(
        (await refusal(send(bench.repository, "cancel_handoff", unknown, { task, fence: 1 }))).code,
      ).toBe("NOT_FOUND");
    });

    test("not once an agent has accepted", async () => {
      const { task } = await accepted();
      const error = await refusal(send(bench.repository, "cancel_handoff", {}, { task, fence: 2 }));
      expect(error).toMatchObject({ code: "CONFLICT", details: { state: "accepted", accepted_by: "taker" } });
    });

    test.each(["requested", "offered", "accepted"] as const)("by a take while it is %s", async (state) => {
      const { task, id } = await { requested, offered, accepted }[state]();
      const { fence } = await head(task);
      const taken = await send(bench.repository, "take", {}, { task, agent: "third" });
      expect(taken.fence).toBe(fence + 1);
      expect(await handoff(id)).toMatchObject({ state: "cancelled", failure: { reason: "taken" } });
      expect(await head(task)).toMatchObject({ state: "active", owner: "third", handoff_id: null });
      expect((await trail(task)).slice(-2)).toMatchObject([
        { op: "take" },
        { op: "cancel_handoff", handoff_from: state, handoff_to: "cancelled" },
      ]);
    });

    test.each([
      ["failed", "failed"],
      ["cancelled", "cancelled"],
    ] as const)("by the task's end as %s", async (status, state) => {
      const { task, id } = await requested();
      await finalize(bench.repository, id, status, { task, fence: 1 });
      expect(await handoff(id)).toMatchObject({ state: "cancelled", failure: { reason: "task_ended" } });
      expect(await head(task)).toMatchObject({ state, handoff_id: null });
    });

    test("not by finalizing the checkpoint as handed off", async () => {
      const { task, id } = await requested();
      await finalize(bench.repository, id, "handed_off", { task, fence: 1 });
      expect(await handoff(id)).toMatchObject({ state: "requested" });
      expect(await head(task)).toMatchObject({ state: "handing_off", handoff_id: id });
    });

    test("by a later checkpoint in phase handoff, which opens the next one", async () => {
      const { task, id } = await requested();
      const next = await create(bench.repository, {
        task,
        agent: "giver",
        fence: 1,
        checkpoint: handingOff(),
      });
      expect(await handoff(id)).toMatchObject({ state: "cancelled", failure: { reason: "superseded" } });
      expect(await head(task)).toMatchObject({ state: "handing_off", handoff_id: next.handoff_id });
      const ops = (await trail(task)).slice(-3).map(({ op }) => op);
      expect(ops).toEqual(["create", "cancel_handoff", "handoff"]);
    });
  });

  describe("the first checkpoint", () => {
    test("may hand off again at once: it confirms, and opens the next", async () => {
      const { task, id } = await accepted();
      const next = await create(bench.repository, {
        task,
        agent: "taker",
        fence: 2,
        checkpoint: handingOff(),
      });
      expect(await handoff(id)).toMatchObject({
        state: "confirmed",
        first_checkpoint_id: next.checkpoint_id,
      });
      expect(await head(task)).toMatchObject({ state: "handing_off", handoff_id: next.checkpoint_id });
    });

    test("confirms only by the taker, under its fence, and linked", async () => {
      const { task, id } = await accepted();
      await create(bench.repository, { task, agent: "tool", fence: 2 });
      expect((await handoff(id)).state).toBe("accepted");
      const alone = input();
      alone.metadata.parent_ids = [];
      await create(bench.repository, { task, agent: "taker", fence: 2, checkpoint: alone });
      expect((await handoff(id)).state).toBe("accepted");
      await create(bench.repository, { task, agent: "taker", fence: 2 });
      expect((await handoff(id)).state).toBe("confirmed");
    });
  });

  describe("coordinators", () => {
    test("a broken chain rejects and blocks, until the task's next checkpoint", async () => {
      const { task, id } = await requested();
      const failure = { reason: "chain_broken", details: "hash mismatch" } as const;
      const results = await Promise.all(
        Array.from({ length: 5 }, () => bench.repository.rejectHandoff("default", id, failure)),
      );
      expect(results.filter(({ applied }) => applied)).toHaveLength(1);
      for (const result of results) expect(result.handoff?.state).toBe("rejected");
      expect(await head(task)).toMatchObject({ state: "blocked", handoff_id: null, owner: "giver" });
      expect((await trail(task)).slice(-2)).toMatchObject([
        { op: "reject", actor: { type: "service" }, command_id: null, state_to: "handing_off" },
        { op: "block", state_from: "handing_off", state_to: "blocked" },
      ]);
      expect((await outbox(task)).slice(-2).map(({ event }) => event.data)).toEqual([
        { handoffId: id, state: "rejected", reason: "chain_broken" },
        { taskId: task, reason: "chain_broken", handoffId: id },
      ]);
      await create(bench.repository, { task, agent: "giver", fence: 1 });
      expect(await head(task)).toMatchObject({ state: "active" });
    });

    test("of many that offer or escalate at once one does it", async () => {
      const { id } = await requested();
      await bench.repository.validateHandoff("default", id, { toAgentType: "qa" });
      const validated = await handoff(id);
      const race = <T>(move: () => Promise<T>) => Promise.all(Array.from({ length: 8 }, move));
      const offers = await race(() => bench.repository.offerHandoff("default", id, offering(validated)));
      expect(offers.filter(({ applied }) => applied)).toHaveLength(1);
      expect(await handoff(id)).toMatchObject({ attempt: 1 });
      const stale = { attempt: 0, reason: "no_agent" } as const;
      expect(await bench.repository.escalateHandoff("default", id, stale)).toMatchObject({ applied: false });
      const ends = await race(() =>
        bench.repository.escalateHandoff("default", id, { ...stale, attempt: 1 }),
      );
      expect(ends.filter(({ applied }) => applied)).toHaveLength(1);
      expect(await handoff(id)).toMatchObject({
        state: "escalated",
        failure: { reason: "no_agent", details: null },
      });
    });

    test("a handoff lapses after its deadline and not before, and its task is left to whoever owns it", async () => {
      const { task, id } = await accepted();
      expect(await bench.repository.lapseHandoff("default", id)).toMatchObject({ applied: false });
      now += 900_000;
      expect(await bench.repository.lapseHandoff("default", id)).toMatchObject({ applied: true });
      expect(await handoff(id)).toMatchObject({
        state: "lapsed",
        failure: { reason: "no_first_checkpoint" },
      });
      expect(await head(task)).toMatchObject({ state: "active", owner: "taker", fence: 2, handoff_id: null });
      expect(await bench.repository.lapseHandoff("default", id)).toMatchObject({ applied: false });
    });

    test("what is not there is not there", async () => {
      const nothing = { applied: false, handoff: null };
      expect(await bench.repository.lapseHandoff("default", uuidv7())).toEqual(nothing);
      const { id } = await requested();
      expect(await bench.repository.validateHandoff("other", id, { toAgentType: "qa" })).toEqual(nothing);
    });
  });

  test("an open handoff is due, whatever messages were lost, and an ended one is not", async () => {
    const { id } = await requested();
    const ids = async (at: number) =>
      (await bench.repository.dueHandoffs(at, 1_000)).map(({ handoff_id }) => handoff_id);
    expect(await ids(now)).not.toContain(id);
    expect(await ids(now + LIMITS.handoff_overlooked_ms)).toContain(id);
    const made = await offer(bench.repository, id);
    expect(await ids(now + LIMITS.handoff_overlooked_ms)).not.toContain(id);
    expect(await ids(Date.parse(made.deadline ?? ""))).toContain(id);
    await bench.repository.escalateHandoff("default", id, { attempt: 1, reason: "no_agent" });
    expect((await due()).map((one) => one.id)).not.toContain(id);
  });

  test("lists are newest first, by task or state, in pages", async () => {
    const task = fresh();
    const ids: string[] = [];
    await create(bench.repository, { task, tenant: "lists" });
    for (let i = 0; i < 7; i += 1) {
      const { handoff_id } = await initiate(bench.repository, { task, tenant: "lists" });
      ids.unshift(handoff_id);
      if (i < 6) await send(bench.repository, "cancel_handoff", {}, { task, tenant: "lists" });
    }
    for (const query of [{ task_id: task }, {}]) {
      const found: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await bench.repository.handoffs("lists", { ...query, limit: 3, cursor });
        expect(page.handoffs.length).toBeLessThanOrEqual(3);
        found.push(...page.handoffs.map(({ handoff_id }) => handoff_id));
        cursor = page.cursor;
      } while (cursor !== undefined);
      expect(found).toEqual(ids);
    }
    const open = await bench.repository.handoffs("lists", { state: "requested", limit: 5 });
    expect(open.handoffs.map(({ handoff_id }) => handoff_id)).toEqual(ids.slice(0, 1));
    expect(await bench.repository.handoff("lists", { task_id: task })).toMatchObject({ handoff_id: ids[0] });
    expect((await refusal(bench.repository.handoff("lists", { handoff_id: uuidv7() }))).code).toBe(
      "NOT_FOUND",
    );
    const foreign = bench.repository.handoffs("lists", { limit: 1, cursor: "eA" });
    expect(await refusal(foreign)).toMatchObject({ code: "INVALID", fields: [{ path: "cursor" }] });
  });

  describe("any sequence of commands and moves", () => {
    const step = fc.record({
      op: fc.constantFrom(
        ...([
          "create",
          "create",
          "hand",
          "hand",
          "handoff",
          "acknowledge",
          "acknowledge",
          "cancel_handoff",
        ] as const),
        ...(["take", "release", "finalize", "validate", "validate", "offer", "offer", "reject"] as const),
        ...(["escalate", "lapse", "wait"] as const),
      ),
      agent: fc.constantFrom("a", "b"),
      isFenced: fc.boolean(),
      isRight: fc.boolean(),
    });
    type Step = { op: string; agent: string; isFenced: boolean; isRight: boolean };

    async function run(task: string, { op, agent, isFenced, isRight }: Step): Promise<unknown> {
      const known = await head(task);
      const by = { task, agent, ...(isFenced && { fence: known.fence }) };
      const last = await bench.repository.handoff("default", { task_id: task }).catch(() => null);
      const id = last?.handoff_id ?? uuidv7();
      const { repository } = bench;
      const command = (name: CommandOp, body: Entry = {}) => send(repository, name, body, by);
      switch (op) {
        case "create":
          return create(repository, by);
        case "hand":
          return create(repository, { ...by, checkpoint: handingOff() });
        case "acknowledge":
          return (
            last && acknowledge(repository, last, { agent, body: { agent_type: isRight ? "qa" : "other" } })
          );
        case "finalize":
          return isRight && finalize(repository, known.latest_id ?? uuidv7(), "failed", by);
        case "release":
          return command("release", { fence: known.fence });
        case "validate":
          return repository.validateHandoff("default", id, { toAgentType: "qa" });
        case "offer":
          return last && repository.offerHandoff("default", id, offering(last));
        case "reject":
          return repository.rejectHandoff("default", id, { reason: "hash_broken" });
        case "escalate":
          return repository.escalateHandoff("default", id, {
            attempt: last?.attempt ?? 0,
            reason: "no_agent",
          });
        case "lapse":
          return repository.lapseHandoff("default", id);
        case "wait":
          now += isRight ? 1_000 : 900_001;
          return;
        default:
          return command(op as CommandOp);
      }
    }

    /** What must hold after every step; returns the fence, which must not fall. */
    async function requireSound(task: string): Promise<number> {
      const { owner, fence, handoff_id, state, audit_seq, audit_hash } = await head(task);
      const { handoffs } = await bench.repository.handoffs("default", { task_id: task, limit: 100 });
      const open = handoffs.filter((one) => isOpenHandoff(one.state));
      expect(open.map((one) => one.handoff_id)).toEqual(handoff_id === null ? [] : [handoff_id]);
      const ids = new Set(handoffs.map((one) => one.handoff_id));
      const dueNow = (await due()).filter(({ id }) => ids.has(id));
      expect(dueNow).toMatchObject(
        open.map((one) => ({ id: one.handoff_id, dueMs: Date.parse(one.due_at ?? "") })),
      );
      const [one] = open;
      if (one?.state === "offered") expect(one.fence_to_be).toBe(fence + 1);
      if (one?.state === "accepted") {
        expect(one.fence).toBe(fence);
        expect([one.accepted_by, null]).toContain(owner);
      } else {
        expect(state === "handing_off").toBe(one !== undefined && state !== "blocked");
      }
      const { entries } = await bench.repository.audit("default", { task_id: task, from_seq: 1, limit: 500 });
      const verifier = createChainVerifier();
      for (const record of entries) verifier.add(record);
      expect(verifier.finish({ seq: audit_seq, hash: audit_hash }).problems).toEqual([]);
      return fence;
    }

    async function requireStory(task: string): Promise<void> {
      const entries = await trail(task);
      const events = (await outbox(task)).flatMap((entry) => (isOffer(entry) ? [] : [entry.event]));
      expect(events.map((event) => (event as { sequence: number }).sequence)).toEqual(
        entries.map(({ seq }) => seq),
      );
      const states = new Map<string, string>();
      let [fence, owner]: [number, unknown] = [0, null];
      for (const { op, handoff_id, handoff_from, handoff_to, ...entry } of entries as Record<
        string,
        string
      >[]) {
        if (handoff_to !== undefined) {
          expect(states.get(handoff_id!) ?? null).toBe(handoff_from);
          const ways =
            handoff_from === null
              ? ["requested"]
              : Object.values(HANDOFF_TABLE[handoff_from as HandoffState]);
          expect(ways).toContain(handoff_to);
          states.set(handoff_id!, handoff_to);
        }
        if (op === "take" || op === "acknowledge") fence += 1;
        if (op === "take" || op === "acknowledge" || op === "release") owner = entry.owner_to;
        expect(entry.fence).toBe(fence);
      }
      expect(await head(task)).toMatchObject({ fence, owner });
      const offers = (await outbox(task)).filter(isOffer).map(({ event }) => event.id);
      expect(offers).toEqual([...new Set(offers)]);
      expect(offers).toHaveLength(entries.filter(({ op }) => op === "offer").length);
    }

    test("keeps one open handoff, one due entry, one owner, a rising fence and a chain that verifies", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 24 }), async (steps) => {
          const task = fresh();
          await create(bench.repository, { task });
          let fence = 0;
          for (const one of steps) {
            await run(task, one).catch((error: unknown) => {
              expect(error).toBeInstanceOf(FleetError);
              expect(["INVALID", "CONFLICT", "FENCED", "NOT_FOUND", "FINALIZED"]).toContain(
                (error as FleetError).code,
              );
            });
            const after = await requireSound(task);
            expect([fence, fence + 1]).toContain(after);
            fence = after;
          }
          await requireStory(task);
        }),
        { numRuns: engine === "memory" ? 60 : 15 },
      );
    }, 60_000);
  });
});
