// Handoffs: every transition by example, from the request to the first checkpoint, the coordinators'
// operations, and the lists.

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { offerSchema } from "../../../../shared/protocol/offer.ts";
import { isOffer, type OutboxEntry } from "../../../../shared/records/outbox/outbox.ts";
import { acknowledge, handoffInput, offer, offering, refusal } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, input, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

describe.each(ENGINES)("handoffs on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  test("a checkpoint in phase handoff opens a handoff: two transitions, two entries, two events, one answer", async () => {
    const task = place.fresh();
    await create(place.repository, { task });
    const commandId = uuidv7();
    const answer = await send(
      place.repository,
      "create",
      {
        checkpoint: handoffInput(),
        handoff: { to_agent_type: "qa", next_phase: "testing", reason: "written" },
      },
      { task, commandId },
    );
    expect(answer).toMatchObject({ handoff_id: commandId, checkpoint_id: commandId });
    expect(await place.head(task)).toMatchObject({
      state: "handing_off",
      handoff_id: commandId,
      audit_seq: 3,
    });
    expect((await place.trail(task)).slice(1)).toMatchObject([
      { op: "create", command_id: commandId, state_to: "active", new_hash: answer.hash },
      { op: "handoff", command_id: commandId, state_from: "active", state_to: "handing_off" },
    ]);
    expect((await place.outbox(task)).slice(1).map(({ event }) => [event.type, event.data])).toMatchObject([
      ["CHECKPOINT_CREATED", { checkpointId: commandId }],
      [
        "AGENT_HANDOFF",
        { handoffId: commandId, fromCheckpoint: commandId, toAgent: "qa", fromAgent: "agent-1" },
      ],
    ]);
    expect(await place.handoff(commandId)).toMatchObject({
      state: "requested",
      checkpoint_id: commandId,
      checkpoint_hash: answer.hash,
      from_agent: "agent-1",
      from_agent_type: "implementation",
      to_agent_type: "qa",
      next_phase: "testing",
      reason: "written",
      due_at: new Date(place.now + LIMITS.handoff_overlooked_ms).toISOString(),
    });
  });

  test("a checkpoint in another phase opens no handoff", async () => {
    const task = place.fresh();
    const answer = await create(place.repository, { task });
    expect(answer).not.toHaveProperty("handoff_id");
    expect(await place.head(task)).toMatchObject({ handoff_id: null, audit_seq: 1 });
    expect(await place.repository.handoffs("default", { task_id: task, limit: 5 })).toEqual({
      handoffs: [],
      corrupt: [],
    });
  });

  test("from the request to the first checkpoint there is one owner at a time, and each transition is recorded", async () => {
    const { task, id } = await place.requested();
    const validated = await place.repository.handoffActions.validateHandoff("default", id, {
      toAgentType: "qa",
    });
    expect(validated).toMatchObject({ applied: true, handoff: { state: "validated", to_agent_type: "qa" } });
    expect(await place.head(task)).toMatchObject({ owner: "giver", fence: 1 });
    const made = await place.repository.handoffActions.offerHandoff(
      "default",
      id,
      offering(validated.handoff as Handoff),
    );
    expect(made.handoff).toMatchObject({ state: "offered", attempt: 1, fence_to_be: 2 });
    expect((await refusal(create(place.repository, { task, agent: "taker", fence: 2 }))).code).toBe(
      "INVALID",
    );
    const answer = await acknowledge(place.repository, made.handoff as Handoff, { agent: "taker" });
    expect(answer).toMatchObject({ owner: "taker", fence: 2, handoff_id: id, checkpoint_id: id });
    expect(answer.deadline).toBe(new Date(place.now + 900_000).toISOString());
    expect((await refusal(create(place.repository, { task, agent: "giver", fence: 1 }))).code).toBe("FENCED");
    expect(await place.head(task)).toMatchObject({
      state: "active",
      owner: "taker",
      fence: 2,
      handoff_id: id,
    });
    const first = await create(place.repository, { task, agent: "taker", fence: 2 });
    expect(await place.handoff(id)).toMatchObject({
      state: "confirmed",
      first_checkpoint_id: first.checkpoint_id,
      deadline: null,
      due_at: null,
      failure: null,
    });
    expect(await place.head(task)).toMatchObject({ handoff_id: null, owner: "taker" });
    expect((await place.trail(task)).map(({ op, handoff_to }) => [op, handoff_to])).toEqual([
      ["take", undefined],
      ["create", undefined],
      ["handoff", "requested"],
      ["validate", "validated"],
      ["offer", "offered"],
      ["acknowledge", "accepted"],
      ["create", undefined],
      ["confirm", "confirmed"],
      ["finalize", undefined],
    ]);
    const events = (await place.outbox(task))
      .filter((entry) => !isOffer(entry))
      .map(({ event }) => event.type);
    expect(events.slice(2)).toEqual([
      "AGENT_HANDOFF",
      "HANDOFF_VALIDATED",
      "HANDOFF_OFFERED",
      "HANDOFF_ACKNOWLEDGED",
      "CHECKPOINT_CREATED",
      "HANDOFF_CONFIRMED",
      "CHECKPOINT_FINALIZED",
    ]);
  });

  test("the offer follows its event in the outbox, and holds the data that the next agent needs", async () => {
    const { task, id } = await place.offered();
    const entries = await place.outbox(task);
    const made = entries.at(-1) as OutboxEntry;
    expect(entries.at(-2)?.event.type).toBe("HANDOFF_OFFERED");
    const parsed = offerSchema.parse(JSON.parse(made.json));
    expect(parsed).toMatchObject({
      id: `${id}/1`,
      subject: task,
      data: {
        handoff_id: id,
        agent_type: "qa",
        fence_to_be: 2,
        attempt: 1,
        prompt: "Continue from the checkpoint.",
      },
    });
    place.now += 60_000;
    const again = await place.repository.handoffActions.offerHandoff(
      "default",
      id,
      offering(await place.handoff(id)),
    );
    expect(again.handoff).toMatchObject({ state: "offered", attempt: 2 });
    expect((await place.outbox(task)).filter(isOffer).map(({ event }) => event.id)).toEqual([
      `${id}/1`,
      `${id}/2`,
    ]);
  });

  test.each([
    ["a prompt over its limit", "x".repeat(LIMITS.prompt_bytes_max + 1)],
    ["a prompt that its JSON form makes too large", "\u0001".repeat(LIMITS.prompt_bytes_max)],
  ])("%s is refused, and nothing is offered", async (_, prompt) => {
    const { task, id } = await place.requested();
    await place.repository.handoffActions.validateHandoff("default", id, { toAgentType: "qa" });
    const error = await refusal(
      place.repository.handoffActions.offerHandoff(
        "default",
        id,
        offering(await place.handoff(id), { prompt }),
      ),
    );
    expect(error).toMatchObject({ code: "TOO_LARGE" });
    expect(await place.handoff(id)).toMatchObject({ state: "validated", attempt: 0 });
    expect((await place.outbox(task)).filter(isOffer)).toEqual([]);
    const largest =
      "\n".repeat(LIMITS.prompt_bytes_max / 2) + "x".repeat(LIMITS.prompt_bytes_max / 2 - 9_000);
    const fits = await place.repository.handoffActions.offerHandoff(
      "default",
      id,
      offering(await place.handoff(id), { prompt: largest }),
    );
    expect(fits.applied).toBe(true);
  });

  describe("the first checkpoint", () => {
    test("may hand off again at once: it confirms one handoff and opens the next", async () => {
      const { task, id } = await place.accepted();
      const next = await create(place.repository, {
        task,
        agent: "taker",
        fence: 2,
        checkpoint: handoffInput(),
      });
      expect(await place.handoff(id)).toMatchObject({
        state: "confirmed",
        first_checkpoint_id: next.checkpoint_id,
      });
      expect(await place.head(task)).toMatchObject({ state: "handing_off", handoff_id: next.checkpoint_id });
    });

    test("confirms only if the next agent wrote it under its fence, linked to the checkpoint of the handoff", async () => {
      const { task, id } = await place.accepted();
      await create(place.repository, { task, agent: "tool", fence: 2 });
      expect((await place.handoff(id)).state).toBe("accepted");
      const alone = input();
      alone.metadata.parent_ids = [];
      await create(place.repository, { task, agent: "taker", fence: 2, checkpoint: alone });
      expect((await place.handoff(id)).state).toBe("accepted");
      await create(place.repository, { task, agent: "taker", fence: 2 });
      expect((await place.handoff(id)).state).toBe("confirmed");
    });
  });

  describe("coordinators", () => {
    test("a broken chain rejects and blocks, until the task's next checkpoint", async () => {
      const { task, id } = await place.requested();
      const failure = { reason: "chain_broken", details: "hash mismatch" } as const;
      const results = await Promise.all(
        Array.from({ length: 5 }, () =>
          place.repository.handoffActions.rejectHandoff("default", id, failure),
        ),
      );
      expect(results.filter(({ applied }) => applied)).toHaveLength(1);
      for (const result of results) expect(result.handoff?.state).toBe("rejected");
      expect(await place.head(task)).toMatchObject({ state: "blocked", handoff_id: null, owner: "giver" });
      expect((await place.trail(task)).slice(-2)).toMatchObject([
        { op: "reject", actor: { type: "service" }, command_id: null, state_to: "active" },
        { op: "block", state_from: "active", state_to: "blocked" },
      ]);
      expect((await place.outbox(task)).slice(-2).map(({ event }) => event.data)).toEqual([
        { handoffId: id, state: "rejected", reason: "chain_broken", toAgentType: "implementation" },
        { taskId: task, reason: "chain_broken", handoffId: id },
      ]);
      await create(place.repository, { task, agent: "giver", fence: 1 });
      expect(await place.head(task)).toMatchObject({ state: "active" });
    });

    test("of many that offer or escalate at once exactly one succeeds", async () => {
      const { id } = await place.requested();
      await place.repository.handoffActions.validateHandoff("default", id, { toAgentType: "qa" });
      const validated = await place.handoff(id);
      const race = <T>(move: () => Promise<T>) => Promise.all(Array.from({ length: 8 }, move));
      const offers = await race(() =>
        place.repository.handoffActions.offerHandoff("default", id, offering(validated)),
      );
      expect(offers.filter(({ applied }) => applied)).toHaveLength(1);
      expect(await place.handoff(id)).toMatchObject({ attempt: 1 });
      const stale = { attempt: 0, reason: "no_agent" } as const;
      expect(await place.repository.handoffActions.escalateHandoff("default", id, stale)).toMatchObject({
        applied: false,
      });
      place.now += 60_000;
      const ends = await race(() =>
        place.repository.handoffActions.escalateHandoff("default", id, { ...stale, attempt: 1 }),
      );
      expect(ends.filter(({ applied }) => applied)).toHaveLength(1);
      expect(await place.handoff(id)).toMatchObject({
        state: "escalated",
        failure: { reason: "no_agent", details: null },
      });
    });

    test("an offer is neither repeated nor escalated as unaccepted before its deadline", async () => {
      const { task, id, offer: made } = await place.offered();
      const { handoffActions } = place.repository;
      const unaccepted = { attempt: 1, reason: "no_agent" } as const;
      place.now = Date.parse(made.deadline ?? "") - 1;
      for (const early of [
        () => handoffActions.offerHandoff("default", id, offering(made)),
        () => handoffActions.escalateHandoff("default", id, unaccepted),
      ])
        expect(await early()).toMatchObject({ applied: false, handoff: { state: "offered", attempt: 1 } });
      place.now += 1;
      expect(await handoffActions.escalateHandoff("default", id, unaccepted)).toMatchObject({
        applied: true,
      });
      expect(await place.head(task)).toMatchObject({ state: "blocked", blocked: { reason: "no_agent" } });
    });

    test.each(["hash_broken", "chain_broken", "agent_type_unknown", "prompt_over_budget"] as const)(
      "an open offer is escalated before its deadline for %s",
      async (reason) => {
        const { task, id } = await place.offered();
        const failure = { attempt: 1, reason };
        expect(await place.repository.handoffActions.escalateHandoff("default", id, failure)).toMatchObject({
          applied: true,
          handoff: { state: "escalated", failure: { reason } },
        });
        expect(await place.head(task)).toMatchObject({ state: "blocked" });
      },
    );

    test("a handoff lapses after its deadline and not before, and its task stays with the owner", async () => {
      const { task, id } = await place.accepted();
      expect(await place.repository.handoffActions.lapseHandoff("default", id)).toMatchObject({
        applied: false,
      });
      place.now += 900_000;
      expect(await place.repository.handoffActions.lapseHandoff("default", id)).toMatchObject({
        applied: true,
      });
      expect(await place.handoff(id)).toMatchObject({
        state: "lapsed",
        failure: { reason: "no_first_checkpoint" },
      });
      expect(await place.head(task)).toMatchObject({
        state: "active",
        owner: "taker",
        fence: 2,
        handoff_id: null,
      });
      expect(await place.repository.handoffActions.lapseHandoff("default", id)).toMatchObject({
        applied: false,
      });
    });

    test("an unknown handoff is not found", async () => {
      const nothing = { applied: false, handoff: null };
      expect(await place.repository.handoffActions.lapseHandoff("default", uuidv7())).toEqual(nothing);
      const { id } = await place.requested();
      expect(
        await place.repository.handoffActions.validateHandoff("other", id, { toAgentType: "qa" }),
      ).toEqual(nothing);
    });
  });

  test("an open handoff becomes due even if messages were lost, and an ended one does not", async () => {
    const { id } = await place.requested();
    const ids = async (at: number) =>
      (await place.repository.handoffActions.dueHandoffs(at, 1_000)).map(({ handoff_id }) => handoff_id);
    expect(await ids(place.now)).not.toContain(id);
    expect(await ids(place.now + LIMITS.handoff_overlooked_ms)).toContain(id);
    const made = await offer(place.repository, id);
    expect(await ids(place.now + LIMITS.handoff_overlooked_ms)).not.toContain(id);
    expect(await ids(Date.parse(made.deadline ?? ""))).toContain(id);
    await place.escalate(id);
    expect((await place.due()).map((one) => one.id)).not.toContain(id);
  });

  test("skipped handoffs do not hide the others", async () => {
    const requested = [];
    for (let n = 0; n < 5; n += 1) requested.push((await place.requested()).id);
    const due = (limit: number, over: readonly string[]) =>
      place.repository.handoffActions.dueHandoffs(
        place.now + LIMITS.handoff_overlooked_ms,
        limit,
        ({ handoff_id }) => over.includes(handoff_id),
      );
    const all = (await due(1_000, [])).map(({ handoff_id }) => handoff_id);
    expect(all).toEqual(expect.arrayContaining(requested));
    for (const limit of [1, 2, 3]) {
      expect((await due(limit, all.slice(0, -1))).map((one) => one.handoff_id)).toEqual(all.slice(-1));
      expect((await due(limit, all.slice(0, 1))).map((one) => one.handoff_id)).toEqual(
        all.slice(1, 1 + limit),
      );
      expect(await due(limit, all)).toEqual([]);
    }
  });
});
