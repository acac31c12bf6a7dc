// A cancelled handoff that should have continued a task after a failure: the task waits for an operator, who
// is alerted.

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { acknowledge, offer, refusal } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, finalize, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

describe.each(ENGINES)("a cancelled handoff on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  const cancel = (task: string, options: Record<string, unknown> = {}, by = {}) =>
    send(place.repository, "cancel_handoff", options, { task, agent: "anna", ...by });
  const handOff = (task: string) => send(place.repository, "handoff", {}, { task, agent: "anna" });
  const take = (task: string) => send(place.repository, "take", {}, { task, agent: "anna" });
  const open = async (task: string) => (await place.head(task)).handoff_id as string;
  const blocks = async (task: string) =>
    (await place.outbox(task)).flatMap(({ event }) =>
      event.type === "TASK_BLOCKED" ? [event.data as { reason: string }] : [],
    );

  async function waiting(): Promise<string> {
    const task = await place.owned();
    await place.fail(task);
    return task;
  }

  async function blocked(): Promise<string> {
    const task = await place.owned();
    await place.fail(task, { class: "unrecoverable" });
    return task;
  }

  /** An operator has handed off a task whose recovery was still waiting. */
  async function handedOff(): Promise<string> {
    const task = await waiting();
    await handOff(task);
    return task;
  }

  async function requireWithdrawn(task: string, times = 1): Promise<void> {
    expect(await place.head(task)).toMatchObject({ state: "blocked", owner: null, handoff_id: null });
    expect(await place.recovery(task)).toMatchObject({
      state: "blocked",
      due_at: null,
      blocked: { reason: "withdrawn" },
    });
    // Without a handoff id: the watchdogs alert the operators.
    const told = (await blocks(task)).filter(({ reason }) => reason === "withdrawn");
    expect(told).toEqual(Array.from({ length: times }, () => ({ taskId: task, reason: "withdrawn" })));
  }

  /** The progress of the coordinators with the handoff. */
  const PLACES: readonly (readonly [name: string, bring: (id: string) => Promise<unknown>])[] = [
    ["requested", async () => undefined],
    [
      "validated",
      (id) => place.repository.handoffActions.validateHandoff("default", id, { toAgentType: "qa" }),
    ],
    ["offered", (id) => offer(place.repository, id)],
  ];

  test.each(PLACES)("an attempt that is %s blocks its recovery", async (_name, bring) => {
    const task = await place.attempted();
    await bring(await open(task));
    await cancel(task, { reason: "the release is off" });
    await requireWithdrawn(task);
    expect(await place.recovery(task)).toMatchObject({
      attempts: 1,
      failures: 1,
      blocked: { details: "anna cancelled the handoff: the release is off" },
    });
    expect((await place.trail(task)).slice(-2)).toMatchObject([
      { op: "cancel_handoff", handoff_to: "cancelled", reason: "withdrawn", state_to: "active" },
      { op: "block", recovery_from: "attempted", recovery_to: "blocked", reason: "withdrawn" },
    ]);
    expect((await place.events(task)).slice(-2)).toEqual(["HANDOFF_FAILED", "TASK_BLOCKED"]);
  });

  test("a handoff that was requested while the recovery waited or was blocked", async () => {
    for (const bring of [waiting, blocked]) {
      const task = await bring();
      await handOff(task);
      expect(await place.handoff(await open(task))).toMatchObject({ supersedes_recovery: true });
      await cancel(task);
      await requireWithdrawn(task);
      expect(await place.recovery(task)).toMatchObject({
        blocked: { details: "anna cancelled the handoff" },
      });
    }
  });

  test("a handoff by a checkpoint that was written meanwhile", async () => {
    for (const bring of [waiting, blocked, () => place.attempted()]) {
      const task = await bring();
      await place.write(task, "anna", { phase: "handoff" });
      await cancel(task);
      await requireWithdrawn(task);
    }
  });

  test("a handoff that replaced such a handoff, or followed a failed one", async () => {
    const replaced = await handedOff();
    await place.write(replaced, "anna", { phase: "handoff" });
    await place.write(replaced, "anna", { phase: "handoff" });
    await cancel(replaced);
    await requireWithdrawn(replaced);

    const untaken = await handedOff();
    const { handoff_id } = await offer(place.repository, await open(untaken));
    await place.escalate(handoff_id);
    expect(await place.head(untaken)).toMatchObject({ state: "blocked", owner: null });
    await handOff(untaken);
    await cancel(untaken);
    await requireWithdrawn(untaken);

    // No watchdog has handled it yet.
    const broken = await handedOff();
    const failure = { reason: "hash_broken" } as const;
    await place.repository.handoffActions.rejectHandoff("default", await open(broken), failure);
    await handOff(broken);
    await cancel(broken);
    await requireWithdrawn(broken);
  });

  test("repeated cancellations alert the operators each time", async () => {
    const task = await handedOff();
    await cancel(task);
    await handOff(task);
    await cancel(task);
    await requireWithdrawn(task, 2);
  });

  test("a repeated command has no further effect, and another one finds no open handoff", async () => {
    const task = await place.attempted();
    const id = await open(task);
    const commandId = uuidv7();
    const first = await cancel(task, {}, { commandId });
    const { audit_seq } = await place.head(task);
    expect(await cancel(task, {}, { commandId })).toEqual({ ...first, replayed: true });
    expect((await refusal(cancel(task))).code).toBe("CONFLICT");
    expect((await refusal(cancel(task, { handoff_id: id }))).code).toBe("CONFLICT");
    expect((await place.head(task)).audit_seq).toBe(audit_seq);
    await requireWithdrawn(task);
  });

  test("of a concurrent cancellation and acceptance, one is refused", async () => {
    for (let round = 0; round < 10; round += 1) {
      const task = round % 2 === 0 ? await place.attempted() : await handedOff();
      const offered = await offer(place.repository, await open(task));
      const accepts = () => acknowledge(place.repository, offered, { agent: "agent-2" });
      const both = round % 4 < 2 ? [cancel(task), accepts()] : [accepts(), cancel(task)];
      const results = await Promise.allSettled(both);
      const refused = results.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
      const { owner, state } = await place.head(task);
      // A late cancel finds that the task has an owner, whose fence is needed.
      const code = owner === null ? "CONFLICT" : "FENCED";
      expect(refused).toMatchObject([{ code }]);
      if (owner === null) await requireWithdrawn(task);
      else {
        expect({ owner, state }).toEqual({ owner: "agent-2", state: "active" });
        expect(await blocks(task)).toEqual([]);
      }
    }
  });

  test("a handoff without an earlier failure leaves the task unchanged", async () => {
    const free = place.fresh();
    await create(place.repository, { task: free });
    await handOff(free);
    await cancel(free);
    expect(await place.head(free)).toMatchObject({ state: "active", owner: null, recovery: null });

    const owned = await place.resumed();
    const { fence, owner } = await place.head(owned);
    await place.write(owned, "agent-2", { phase: "handoff" });
    await cancel(owned, {}, { agent: "agent-2", fence });
    expect(await place.head(owned)).toMatchObject({ state: "active", owner, recovery: { state: "resumed" } });
    expect([...(await blocks(free)), ...(await blocks(owned))]).toEqual([]);
  });

  test("a handoff after a take and a release blocks nothing", async () => {
    const task = await waiting();
    const { fence } = await take(task);
    await send(place.repository, "release", {}, { task, agent: "anna", fence });
    await handOff(task);
    await cancel(task);
    expect(await place.head(task)).toMatchObject({ state: "active", recovery: { state: "idle" } });
    expect(await blocks(task)).toEqual([]);
  });

  test("a handoff by the agent that continued the task blocks nothing", async () => {
    const task = await handedOff();
    const { fence } = await place.takeOver(task, "agent-2");
    await place.write(task, "agent-2", { phase: "handoff" });
    await cancel(task, {}, { agent: "agent-2", fence });
    expect(await place.head(task)).toMatchObject({ state: "active", owner: "agent-2" });
    expect(await blocks(task)).toEqual([]);
  });

  test("a requested recovery continues it", async () => {
    for (const reset of [false, true]) {
      const task = await place.attempted();
      await cancel(task);
      await send(place.repository, "recover", { reset }, { task, agent: "anna" });
      expect(await place.recovery(task)).toMatchObject({ state: "waiting", attempts: reset ? 0 : 1 });
      expect((await place.attempt(task)).applied).toBe(true);
      await place.takeOver(task, "agent-2");
      await place.write(task, "agent-2", { completed: 2 });
      expect(await place.head(task)).toMatchObject({ state: "active", recovery: { state: "idle" } });
    }
  });

  test("a take or an end resolves the block; a write by another agent does not", async () => {
    const taken = await place.attempted();
    await cancel(taken);
    await take(taken);
    expect(await place.recovery(taken)).toMatchObject({ state: "idle", blocked: { taken_by: "anna" } });
    const written = await place.attempted();
    await cancel(written);
    const { checkpoint_id: id } = await place.write(written, "anna", { completed: 1 });
    await requireWithdrawn(written);
    await send(place.repository, "recover", {}, { task: written, agent: "anna" });
    await place.attempt(written);
    expect(await place.recovery(written)).toMatchObject({ state: "attempted", checkpoint_id: id });
    const over = await place.attempted();
    await cancel(over);
    const { latest_id, fence } = await place.head(over);
    await finalize(place.repository, latest_id as string, "cancelled", { task: over, agent: "anna", fence });
    expect(await place.head(over)).toMatchObject({ state: "cancelled", recovery: { state: "idle" } });
  });
});
