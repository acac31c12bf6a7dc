// Blocked tasks: a task stays blocked if an agent takes it and fails, operators are alerted once for each
// block, and only an agent that continues the work ends it.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../../shared/protocol/policy.ts";
import { offer } from "../../../harness/records/handoffs.ts";
import { ENGINES, finalize, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const SILENCE_MS = DEFAULT_POLICY.recovery.silence_ms;

describe.each(ENGINES)("blocked tasks on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  const take = (task: string, agent = "agent-1") =>
    send(place.repository, "take", { heartbeats: true }, { task, agent });
  const recover = (task: string, options = {}) =>
    send(place.repository, "recover", options, { task, agent: "anna" });

  /** The blocks of the task, each with the audit entry of its alert. */
  async function blocks(task: string): Promise<{ reason: string; alert: number; isNew: boolean }[]> {
    const events = (await place.outbox(task)).map(({ event }) => event);
    return events.flatMap(({ type, sequence, data }) => {
      if (type !== "TASK_BLOCKED") return [];
      const { reason, alertedSeq } = data as { reason: string; alertedSeq?: number };
      return [{ reason, alert: alertedSeq ?? sequence, isNew: alertedSeq === undefined }];
    });
  }

  async function unrecoverable(): Promise<string> {
    const task = await place.owned();
    await place.fail(task, { class: "unrecoverable", details: "the key is not valid" });
    return task;
  }

  /** No agent accepted the attempts. */
  async function untaken(): Promise<string> {
    const task = await place.attempted();
    const { handoff_id } = await place.head(task);
    await offer(place.repository, handoff_id as string);
    await place.escalate(handoff_id as string, "no agent is available");
    return task;
  }

  async function withdrawn(): Promise<string> {
    const task = await place.attempted();
    await send(place.repository, "cancel_handoff", { reason: "not now" }, { task, agent: "anna" });
    return task;
  }

  const BLOCKED: [string, () => Promise<string>][] = [
    ["attempts_spent", () => place.spent()],
    ["unrecoverable", unrecoverable],
    ["no_agent", untaken],
    ["withdrawn", withdrawn],
  ];

  describe.each(BLOCKED)("for %s", (reason, bring) => {
    test.each(["exit_report", "lease_lapsed", "step_overdue"] as const)(
      "the failure (%s) of an agent that takes it is noted, and it is blocked as before",
      async (signal) => {
        const task = await bring();
        const before = await place.head(task);
        await take(task);
        place.now += SILENCE_MS;
        const noted = await place.fail(task, { signal, details: "killed" });
        expect(noted).toMatchObject({ applied: true, head: { owner: null, fence: before.fence + 2 } });
        const after = await place.head(task);
        expect(after).toMatchObject({
          state: "blocked",
          blocked: {
            alert_seq: before.blocked?.alert_seq,
            reason,
            details: before.blocked?.details,
            taken_by: null,
          },
          recovery: {
            state: "blocked",
            attempts: before.recovery?.attempts,
            rung: before.recovery?.rung,
            rung_attempts: before.recovery?.rung_attempts,
            due_at: null,
            failure: { signal, agent_id: "agent-1", details: "killed" },
          },
        });
        expect((await place.trail(task)).slice(-2)).toMatchObject([
          { op: "fail", state_from: "blocked", state_to: "active", signal, action: "block" },
          { op: "block", state_to: "blocked", reason, alerted_seq: before.blocked?.alert_seq },
        ]);
        expect(await place.recovering()).toContain(task);
      },
    );

    test("an agent that takes and releases it without a write leaves it blocked as before", async () => {
      const task = await bring();
      const before = await place.head(task);
      const { fence } = await take(task);
      await send(place.repository, "release", {}, { task, fence });
      expect(await place.head(task)).toMatchObject({
        state: "blocked",
        owner: null,
        blocked: { reason, details: before.blocked?.details, alert_seq: before.blocked?.alert_seq },
        recovery: { state: "blocked" },
      });
    });

    test("writes by an agent that has not taken it are kept, and it stays blocked", async () => {
      const task = await bring();
      const before = await place.head(task);
      const { checkpoint_id: id } = await place.write(task, "anna", { completed: 9 });
      const after = await place.head(task);
      expect(after).toMatchObject({ state: "blocked", latest_id: id, owner: null, blocked: before.blocked });
      expect(after.recovery).toEqual({ ...before.recovery, completed_items: 9 });
      await recover(task, { reset: true });
      await place.attempt(task);
      expect(await place.recovery(task)).toMatchObject({ state: "attempted", checkpoint_id: id });
    });
  });

  describe("for a handoff that no agent accepted, before any agent has failed", () => {
    async function escalated(): Promise<string> {
      const { task, id } = await place.requested();
      await offer(place.repository, id);
      await place.escalate(id, "no agent is available");
      return task;
    }
    const blockedCount = async () => (await place.repository.recoveryActions.counts()).blocked;
    const isListed = async (task: string) => {
      const { tasks } = await place.repository.recoveries("default", { state: "blocked", limit: 100 });
      return tasks.some(({ task_id }) => task_id === task);
    };

    test("it is listed and counted until an agent takes it, and again after the release", async () => {
      const before = await blockedCount();
      const task = await escalated();
      expect(await place.recovery(task)).toMatchObject({ state: "blocked", failures: 0, attempts: 0 });
      expect([await isListed(task), await blockedCount()]).toEqual([true, before + 1]);
      const { fence } = await take(task);
      expect(await place.head(task)).toMatchObject({ state: "blocked", recovery: null });
      expect([await isListed(task), await blockedCount()]).toEqual([false, before]);
      await send(place.repository, "release", {}, { task, fence });
      expect([await isListed(task), await blockedCount()]).toEqual([true, before + 1]);
      expect((await blocks(task)).map(({ isNew }) => isNew)).toEqual([true, false]);
    });

    test.each(["recover", "handoff", "write", "end"] as const)(
      "it is no longer listed after: %s",
      async (op) => {
        const before = await blockedCount();
        const task = await escalated();
        const { fence, owner, latest_id: id } = await place.head(task);
        const by = { task, agent: owner ?? "agent-1", fence };
        place.now += SILENCE_MS;
        if (op === "recover") await recover(task);
        else if (op === "handoff") await send(place.repository, "handoff", {}, by);
        else if (op === "write") await place.write(task, by.agent, { completed: 9 });
        else await finalize(place.repository, id as string, "failed", by);
        expect([await isListed(task), await blockedCount()]).toEqual([false, before]);
        expect(await place.recovering()).toEqual(
          op === "recover" ? expect.arrayContaining([task]) : expect.not.arrayContaining([task]),
        );
        const { stored, replayed } = await place.replayed(task);
        expect(replayed).toEqual(stored);
      },
    );
  });

  test("an owner that writes continues it, and is recovered like any other", async () => {
    const task = await unrecoverable();
    await take(task);
    await place.write(task, "agent-1", { completed: 0 });
    expect(await place.head(task)).toMatchObject({ state: "active", recovery: { state: "idle" } });
    await place.fail(task);
    expect(await place.recovery(task)).toMatchObject({ state: "waiting", failures: 2 });
  });

  test("an owner that changes a checkpoint continues it too; its progress makes the next block a new one", async () => {
    const task = await unrecoverable();
    const { latest_id: id } = await place.head(task);
    const { fence } = await take(task);
    const patch = { execution_state: { completed_items: ["item 1", "item 2"] } };
    await send(place.repository, "update", { checkpoint_id: id, patch }, { task, fence });
    expect(await place.head(task)).toMatchObject({ state: "active", blocked: null });
    await place.fail(task, { class: "unrecoverable" });
    expect((await blocks(task)).map(({ isNew }) => isNew)).toEqual([true, true]);
  });

  test("the owner whose handoff was rejected cannot fail afterwards; an agent that takes the task then can", async () => {
    const { task, id } = await place.requested();
    await place.repository.handoffActions.rejectHandoff("default", id, { reason: "chain_broken" });
    const alerted = (await place.head(task)).blocked?.alert_seq;
    expect(await place.fail(task)).toEqual({ applied: false, why: "blocked" });
    await take(task, "agent-2");
    expect(await place.fail(task)).toMatchObject({ applied: true });
    expect(await place.head(task)).toMatchObject({
      state: "blocked",
      owner: null,
      blocked: { alert_seq: alerted, reason: "chain_broken" },
      recovery: { state: "blocked" },
    });
  });

  test("a checkpoint corrupted after it was chosen needs no operator: the next failure is handled", async () => {
    const task = await place.owned(2);
    const { checkpoint_id: id } = await place.write(task, "agent-1", { phase: "handoff" });
    await place.repository.handoffActions.rejectHandoff("default", id, { reason: "hash_broken" });
    await take(task, "agent-2");
    expect(await place.fail(task)).toMatchObject({ applied: true, head: { state: "active" } });
    expect((await place.recovery(task)).state).toBe("waiting");
  });

  test("a late report of a corrupt checkpoint does not revoke the ownership of an agent that took the task", async () => {
    const task = await place.attempted();
    const { handoff_id: id } = await place.head(task);
    await place.repository.handoffActions.rejectHandoff("default", id as string, { reason: "hash_broken" });
    await take(task, "agent-2");
    const rejected = { signal: "handoff_rejected", class: "corrupt_state", agent_id: null } as const;
    expect(await place.fail(task, rejected)).toEqual({ applied: false, why: "superseded" });
    expect((await place.head(task)).owner).toBe("agent-2");
  });

  test("a write by another agent before the watchdogs handle a corrupt checkpoint leaves the task to them", async () => {
    const task = await place.attempted();
    const { handoff_id: id } = await place.head(task);
    await place.repository.handoffActions.rejectHandoff("default", id as string, { reason: "hash_broken" });
    await place.write(task, "anna", {});
    expect((await place.recovery(task)).state).toBe("attempted");
    const rejected = { signal: "handoff_rejected", class: "corrupt_state", agent_id: null } as const;
    expect(await place.fail(task, rejected)).toMatchObject({ applied: true });
    expect((await place.recovery(task)).state).toBe("waiting");
  });

  test.each([
    ["nothing", 0],
    ["the same items as before", 2],
  ])(
    "an agent that is always restarted under its name and writes %s causes one alert",
    async (_what, completed) => {
      const task = await place.spent();
      for (let n = 0; n < 11; n += 1) {
        await take(task, "agent-9");
        if (completed > 0) await place.write(task, "agent-9", { completed });
        expect(await place.fail(task)).toMatchObject({ applied: true });
        expect(await place.head(task)).toMatchObject({ state: "blocked", owner: null });
      }
      const told = await blocks(task);
      expect(told).toHaveLength(12);
      expect(told.filter(({ isNew }) => isNew)).toHaveLength(1);
      expect(new Set(told.map(({ alert }) => alert)).size).toBe(1);
      const failures = (await place.trail(task)).filter(({ op }) => op === "fail");
      expect(failures).toHaveLength(6 + 11);
    },
  );

  describe("it is a new block with a new alert", () => {
    const blockedTwice = async (between: (task: string) => Promise<unknown>, reason = "unrecoverable") => {
      const task = await unrecoverable();
      await between(task);
      const failed = reason === "unrecoverable" ? { class: "unrecoverable" as const } : {};
      await place.fail(task, failed);
      return (await blocks(task)).map(({ isNew }) => isNew);
    };

    test("after progress", async () => {
      const told = await blockedTwice(async (task) => {
        await take(task);
        await place.write(task, "agent-1", { completed: 2 });
      });
      expect(told).toEqual([true, true]);
    });

    test("not after a write without progress", async () => {
      const told = await blockedTwice(async (task) => {
        await take(task);
        await place.write(task, "agent-1", { completed: 0 });
      });
      expect(told).toEqual([true, false]);
    });

    test("after an operator has requested another attempt", async () => {
      for (const reset of [false, true]) {
        const told = await blockedTwice(async (task) => {
          await recover(task, { reset });
          await place.attempt(task);
          await place.takeOver(task, "agent-2");
        });
        expect(told).toEqual([true, true]);
      }
    });

    test("after the task ended and was opened again", async () => {
      const told = await blockedTwice(async (task) => {
        const { fence } = await take(task);
        const { checkpoint_id: id } = await place.write(task, "agent-1", { phase: "complete" });
        await finalize(place.repository, id, "failed", { task, agent: "agent-1", fence });
        await place.write(task, "agent-1", { completed: 1 });
      });
      expect(told).toEqual([true, true]);
    });

    test("for another reason", async () => {
      const task = await place.spent();
      await take(task);
      await place.write(task, "agent-1", { completed: 2 });
      await place.fail(task, { class: "unrecoverable" });
      expect((await blocks(task)).map(({ reason, isNew }) => [reason, isNew])).toEqual([
        ["attempts_spent", true],
        ["unrecoverable", true],
      ]);
    });
  });
});

test("probes cause one alert for one block, and continue when an agent that took the task has failed", async () => {
  const place = await TestTasks.open("memory", {
    defaults: { recovery: { half_open_ms: 60_000, attempts: 1, previous_attempts: 0 } },
    tenants: {},
  });
  const task = await place.spent(1);
  const alerted = (await place.head(task)).blocked?.alert_seq;
  const key = { tenant: "default", task };
  for (let n = 0; n < 3; n += 1) {
    const dueAt = (await place.recovery(task)).due_at as string;
    place.now = Date.parse(dueAt);
    await place.repository.recoveryActions.probe(key, { dueAt });
    await place.attempt(task);
    await place.takeOver(task, "agent-9");
    await place.fail(task);
    expect(await place.head(task)).toMatchObject({ state: "blocked", blocked: { alert_seq: alerted } });
  }
  await send(place.repository, "take", {}, { task, agent: "agent-1" });
  expect((await place.recovery(task)).due_at).toBe(null);
  await place.fail(task);
  expect((await place.recovery(task)).due_at).toBe(new Date(place.now + 60_000).toISOString());
  await place.close();
});
