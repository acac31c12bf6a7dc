// Refused failures and attempts: a living agent keeps its task, and of many concurrent watchdogs exactly one
// acts.

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../../shared/protocol/policy.ts";
import { refusal } from "../../../harness/records/handoffs.ts";
import { ENGINES, finalize, send } from "../../../harness/records/records.ts";
import { advanceRecovery, sightingOf } from "../../../harness/records/recoveries.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const SILENCE_MS = DEFAULT_POLICY.recovery.silence_ms;
const lapsed = { signal: "lease_lapsed", class: "timeout" } as const;

describe.each(ENGINES)("refusals of recoveries on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  const lease = (task: string, lapsesAt: number, fence = 1) => ({
    ...{ tenant: "default", task, fence, agentId: "agent-1", agentType: "qa", lapsesAt },
  });
  const leasesOf = async (task: string) =>
    (await place.repository.recoveryActions.leases(null, 1_000)).leases.filter((one) => one.task === task);

  test("nothing changes when a failure is refused", async () => {
    const task = await place.owned();
    const before = await place.head(task);
    expect(await place.fail(task, { agent_id: "somebody" })).toEqual({ applied: false, why: "superseded" });
    expect(await place.head(task)).toEqual(before);
  });

  test("of an unknown task", async () => {
    const sighting = sightingOf(await place.head(await place.owned()));
    const nowhere = { tenant: "default", task: "nowhere" };
    expect(await place.repository.recoveryActions.noteFailure(nowhere, sighting)).toEqual({
      applied: false,
      why: "unknown_task",
    });
    const elsewhere = { tenant: "acme", task: "task-1" };
    expect(await place.repository.recoveryActions.noteFailure(elsewhere, sighting)).toMatchObject({
      why: "unknown_task",
    });
  });

  test("of an earlier owner, whose lease is cleared", async () => {
    const task = await place.owned();
    await place.repository.recoveryActions.renewLeases([lease(task, place.now + SILENCE_MS)]);
    await send(place.repository, "take", {}, { task, agent: "agent-2" });
    const late = { fence: 1, agent_id: "agent-1" };
    expect(await place.fail(task, late)).toEqual({ applied: false, why: "superseded" });
    expect(await leasesOf(task)).toEqual([]);
  });

  test("of a task without an owner", async () => {
    const task = await place.owned();
    await send(place.repository, "release", {}, { task, fence: 1 });
    expect(await place.fail(task, { agent_id: "agent-1" })).toMatchObject({ why: "superseded" });
    expect(await place.fail(task, { agent_id: null })).toMatchObject({ why: "superseded" });
  });

  test.each(["failed", "cancelled", "succeeded"] as const)("of a task that %s", async (status) => {
    const task = await place.owned();
    const { checkpoint_id: id } = await place.write(task, "agent-1", { phase: "complete" });
    await finalize(place.repository, id, status, { task, fence: 1 });
    expect(await place.fail(task)).toEqual({ applied: false, why: "ended" });
  });

  test("of an agent that has handed off its task", async () => {
    const { task } = await place.offered();
    expect(await place.fail(task)).toEqual({ applied: false, why: "handing_off" });
  });

  test("of a task that waits for an operator", async () => {
    const { task, id } = await place.requested();
    await place.repository.handoffActions.rejectHandoff("default", id, { reason: "chain_broken" });
    expect(await place.fail(task)).toEqual({ applied: false, why: "blocked" });
  });

  test("for silence, while the lease in the store is valid; other signals ignore the lease", async () => {
    const task = await place.owned();
    const until = place.now + 2 * SILENCE_MS;
    await place.repository.recoveryActions.renewLeases([lease(task, until)]);
    place.now += SILENCE_MS + 1;
    for (const signal of ["lease_lapsed", "step_overdue"] as const) {
      expect(await place.fail(task, { ...lapsed, signal })).toEqual({
        applied: false,
        why: "agent_alive",
        untilMs: until,
      });
    }
    expect(await leasesOf(task)).toHaveLength(1);
    place.now = until;
    expect(await place.fail(task, lapsed)).toMatchObject({ applied: true });
    expect(await leasesOf(task)).toEqual([]);

    const other = await place.owned();
    await place.repository.recoveryActions.renewLeases([lease(other, place.now + SILENCE_MS)]);
    expect(await place.fail(other, { signal: "exit_report" })).toMatchObject({ applied: true });
  });

  test("for silence, when the agent has written since", async () => {
    const task = await place.owned();
    place.now += SILENCE_MS - 1;
    await place.write(task, "agent-1", { completed: 1 });
    const written = place.now;
    place.now += 5;
    expect(await place.fail(task, lapsed)).toEqual({
      applied: false,
      why: "agent_alive",
      untilMs: written + SILENCE_MS,
    });
    place.now = written + SILENCE_MS;
    expect(await place.fail(task, lapsed)).toMatchObject({ applied: true });
  });

  test("a refused command of a superseded agent does not keep a dead owner alive", async () => {
    const task = await place.owned();
    await send(place.repository, "take", { heartbeats: true }, { task, agent: "dead" });
    const { recovery } = DEFAULT_POLICY;
    place.now += recovery.silence_ms - 100;
    await place.repository.recordRefusal({
      tenant: "default",
      task,
      agent: "agent-1",
      actor: { id: "writer", type: "service" },
      commandId: null,
      reason: "fenced",
      occasion: "q/1",
    } as never);
    place.now += 200;
    expect(await place.fail(task, { signal: "lease_lapsed", class: "timeout" })).toMatchObject({
      applied: true,
    });
  });

  test("a lease from a clock far ahead does not keep a dead agent alive", async () => {
    const task = await place.owned();
    await place.repository.recoveryActions.renewLeases([lease(task, place.now + 365 * 86_400_000)]);
    place.now += SILENCE_MS;
    expect(await place.fail(task, lapsed)).toMatchObject({ applied: true });
  });

  test("leases are kept by task and fence, renewed, listed and dropped", async () => {
    const task = await place.owned();
    await place.repository.recoveryActions.renewLeases(
      [1, 2, 3].map((fence) => lease(task, 1_000 * fence, fence)),
    );
    await place.repository.recoveryActions.renewLeases([lease(task, 9_000, 2)]);
    expect((await leasesOf(task)).map(({ fence, lapsesAt }) => [fence, lapsesAt])).toEqual([
      [1, 1_000],
      [2, 9_000],
      [3, 3_000],
    ]);
    const first = await place.repository.recoveryActions.leases({ tenant: "default", task, fence: 0 }, 2);
    expect(first).toMatchObject({ last: { task, fence: 2 }, leases: [{ fence: 1 }, { fence: 2 }] });
    const rest = await place.repository.recoveryActions.leases({ tenant: "default", task, fence: 2 }, 1_000);
    expect(rest.leases.filter((one) => one.task === task)).toMatchObject([{ fence: 3 }]);
    expect(rest.last).toBe(null);
    await place.repository.recoveryActions.dropLeases([1, 2, 3].map((fence) => lease(task, 0, fence)));
    expect(await leasesOf(task)).toEqual([]);
  });

  test("of fifty watchdogs that record one failure at once, one succeeds", async () => {
    const task = await place.owned();
    const sighting = sightingOf(await place.head(task));
    const noted = await Promise.all(
      Array.from({ length: 50 }, () =>
        place.repository.recoveryActions.noteFailure({ tenant: "default", task }, sighting),
      ),
    );
    expect(noted.filter(({ applied }) => applied)).toHaveLength(1);
    expect(noted.filter((one) => !one.applied && one.why === "superseded")).toHaveLength(49);
    expect(await place.head(task)).toMatchObject({ fence: 2, recovery: { failures: 1 } });
    expect((await place.events(task)).filter((type) => type === "AGENT_FAILED")).toHaveLength(1);
  });

  test("of fifty watchdogs that attempt one recovery at once, one succeeds: one handoff, one attempt", async () => {
    const task = await place.owned();
    await place.fail(task);
    const made = await Promise.all(Array.from({ length: 50 }, () => advanceRecovery(place.repository, task)));
    expect(made.filter(({ applied }) => applied)).toHaveLength(1);
    expect(await place.recovery(task)).toMatchObject({ state: "attempted", attempts: 1 });
    const { handoffs } = await place.repository.handoffs("default", { task_id: task, limit: 100 });
    expect(handoffs).toHaveLength(1);
    expect((await place.events(task)).filter((type) => type === "RECOVERY_INITIATED")).toHaveLength(1);
  });

  test("an attempt that was prepared for an earlier due time is refused", async () => {
    const task = await place.resumed();
    const key = { tenant: "default", task };
    await place.fail(task);
    const { due_at: dueAt } = await place.recovery(task);
    const search = await place.repository.recoveryActions.findPoint(key);
    if (!search.found) throw new Error("there is a recovery point");
    const { checkpoint_id: checkpointId } = search.checkpoint.metadata;
    place.now += 1;
    await send(place.repository, "recover", {}, { task, agent: "somebody" });
    place.now = Date.parse(dueAt ?? "");
    const late = { dueAt: dueAt ?? "", handoffId: uuidv7(), checkpointId };
    expect(await place.repository.recoveryActions.attempt(key, late)).toMatchObject({ applied: false });
    expect((await advanceRecovery(place.repository, task)).applied).toBe(true);
  });

  test("without an open recovery nothing is attempted or blocked", async () => {
    const task = await place.resumed();
    const key = { tenant: "default", task };
    const search = await place.repository.recoveryActions.findPoint(key);
    if (!search.found) throw new Error("there is a recovery point");
    const { checkpoint_id: checkpointId } = search.checkpoint.metadata;
    const dueAt = new Date(place.now).toISOString();
    const before = await place.head(task);
    expect(
      await place.repository.recoveryActions.attempt(key, { dueAt, handoffId: uuidv7(), checkpointId }),
    ).toMatchObject({ applied: false });
    const blocking = { dueAt, reason: "chain_broken", details: null } as const;
    expect(await place.repository.recoveryActions.block(key, blocking)).toMatchObject({ applied: false });
    expect(await place.repository.recoveryActions.probe(key, { dueAt })).toMatchObject({ applied: false });
    expect(await place.head(task)).toEqual(before);
  });

  test("an ended task is not attempted", async () => {
    const task = await place.owned();
    await place.fail(task);
    const { latest_id } = await place.head(task);
    await finalize(place.repository, latest_id as string, "cancelled", { task, agent: "somebody" });
    expect(await advanceRecovery(place.repository, task)).toMatchObject({
      applied: false,
      head: { state: "cancelled" },
    });
  });

  test("a failed agent cannot write any more, even after progress", async () => {
    const task = await place.attempted();
    const late = place.write(task, "agent-1", { fence: 1, completed: 9 });
    expect((await refusal(late)).code).toBe("FENCED");
    expect((await place.recovery(task)).state).toBe("attempted");
  });
});
