// Recoveries: every transition by example, from the failure to the progress that restores the budget, or to a
// block.

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { acknowledge, offer } from "../../../harness/records/handoffs.ts";
import { ENGINES, finalize, send } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { flip } from "../search/corpus.ts";

const iso = (ms: number): string => new Date(ms).toISOString();

describe.each(ENGINES)("recoveries on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  test("a failure revokes the ownership, raises the fence and makes an attempt due, all in the audit trail", async () => {
    const task = await place.owned();
    const noted = await place.fail(task, { details: "exit code 1" });
    expect(noted).toMatchObject({ applied: true, head: { owner: null, fence: 2, state: "active" } });
    const { state, due_at } = await place.recovery(task);
    expect({ state, due_at }).toEqual({ state: "waiting", due_at: iso(place.now) });
    expect(await place.recovery(task)).toMatchObject({
      failures: 1,
      attempts: 0,
      attempts_max: 5,
      rung: "latest",
      action: "retry",
      failure: { class: "crash", signal: "exit_report", agent_id: "agent-1", fence: 1 },
    });
    expect((await place.trail(task)).at(-1)).toMatchObject({
      op: "fail",
      fence: 2,
      owner_from: "agent-1",
      owner_to: null,
      recovery_from: "idle",
      recovery_to: "waiting",
      class: "crash",
      action: "retry",
      actor: { id: "test", type: "service" },
    });
    const event = (await place.outbox(task)).at(-1)?.event;
    expect(event).toMatchObject({
      type: "AGENT_FAILED",
      data: { taskId: task, agentId: "agent-1", class: "crash", fence: 1, dueAt: iso(place.now) },
    });
    await expect(place.write(task, "agent-1", { fence: 1 })).rejects.toMatchObject({ code: "FENCED" });
  });

  test("a reason that is too long is truncated between characters, so that the text stays valid", async () => {
    const task = await place.owned();
    for (const details of ["😀".repeat(1_990), `.${"😀".repeat(1_990)}`]) {
      await place.fail(task, { details });
      const { head } = await place.attempt(task);
      const { reason } = await place.handoff(head?.handoff_id as string);
      expect(reason?.isWellFormed()).toBe(true);
      expect(reason).toHaveLength(2_000);
      await place.takeOver(task, "agent-2");
    }
  });

  test("an attempt is recorded and made as a handoff that states the reason", async () => {
    const task = await place.owned();
    await place.fail(task, { details: "exit code 1" });
    const { head } = await place.attempt(task);
    const id = head?.handoff_id as string;
    expect(await place.recovery(task)).toMatchObject({
      state: "attempted",
      attempts: 1,
      rung_attempts: 1,
      checkpoint_id: head?.latest_id,
      handoff_id: id,
      due_at: null,
      recent: [iso(place.now)],
    });
    expect(await place.handoff(id)).toMatchObject({
      state: "requested",
      from_agent: "agent-1",
      checkpoint_id: head?.latest_id,
      to_agent_type: "qa",
      reason: "attempt 1 after agent-1 failed: crash, exit code 1",
      recovery: { attempt: 1, class: "crash" },
    });
    expect((await place.trail(task)).slice(-2)).toMatchObject([
      { op: "recover", recovery_to: "attempted", attempt: 1, rung: "latest", handoff_id: id },
      { op: "handoff", state_to: "handing_off" },
    ]);
    expect((await place.events(task)).slice(-2)).toEqual(["RECOVERY_INITIATED", "AGENT_HANDOFF"]);
  });

  test("the first new checkpoint completes the attempt, in its own transaction", async () => {
    const task = await place.attempted();
    const offered = await offer(place.repository, (await place.head(task)).handoff_id as string);
    await acknowledge(place.repository, offered, { agent: "agent-2" });
    expect((await place.recovery(task)).state).toBe("attempted");
    const first = await place.write(task, "agent-2", { completed: 1 });
    expect(await place.recovery(task)).toMatchObject({ state: "resumed", attempts: 1, failures: 1 });
    const events = (await place.outbox(task)).slice(-4, -1).map(({ event }) => event);
    expect(events).toMatchObject([
      { type: "CHECKPOINT_CREATED" },
      { type: "HANDOFF_CONFIRMED" },
      {
        type: "RECOVERY_COMPLETED",
        data: { newAgentId: "agent-2", firstCheckpointId: first.checkpoint_id, attempt: 1, taskId: task },
      },
    ]);
  });

  test("an earlier failure stays recorded, and the second one waits for a pause", async () => {
    const task = await place.resumed();
    await place.fail(task);
    const { state, failures, due_at, action } = await place.recovery(task);
    expect({ state, failures, action }).toEqual({ state: "waiting", failures: 2, action: "back_off" });
    const pause = Date.parse(due_at ?? "") - place.now;
    expect(pause).toBeGreaterThanOrEqual(30_000);
    expect(pause).toBeLessThanOrEqual(60_000);
    const early = { dueAt: due_at ?? "", handoffId: "01890000-0000-7000-8000-000000000001" };
    const point = await place.repository.recoveryActions.findPoint({ tenant: "default", task });
    if (!point.found) throw new Error("there is one");
    const { checkpoint_id: checkpointId } = point.checkpoint.metadata;
    const made = await place.repository.recoveryActions.attempt(
      { tenant: "default", task },
      { ...early, checkpointId },
    );
    expect(made.applied).toBe(false);
  });

  test("a recovery hands off the version that its checkpoint has at the commit", async () => {
    const own = await TestTasks.open(engine);
    try {
      const task = await own.owned(2);
      await own.fail(task);
      const { due_at } = await own.recovery(task);
      const found = (await own.repository.history("default", allOf(task))).checkpoints[0]!;
      const { checkpoint_id: checkpointId } = found.metadata;
      expect(await own.sweepAllDrafts()).toBe(1);
      const finalized = await own.repository.get("default", checkpointId);
      expect(finalized.compliance.hash).not.toBe(found.compliance.hash);
      const handoffId = "01890000-0000-7000-8000-000000000001";
      const attempt = { dueAt: due_at ?? "", handoffId, checkpointId };
      const made = await own.repository.recoveryActions.attempt({ tenant: "default", task }, attempt);
      expect(made.applied).toBe(true);
      const { hash } = finalized.compliance;
      expect((await own.handoff(handoffId)).checkpoint_hash).toBe(hash);
      expect((await own.trail(task)).at(-1)).toMatchObject({ op: "handoff", from_hash: hash });
      await scrub(own, { now: () => own.now });
      expect(await findingsOf(own.repository)).toEqual([]);
    } finally {
      await own.close();
    }
  });

  test("a checkpoint that was damaged after a recovery has found it is not handed off", async () => {
    const task = await place.owned(2);
    await place.fail(task);
    const { latest_id: checkpointId } = await place.head(task);
    const { due_at: dueAt } = await place.recovery(task);
    await flip(place.store, task, checkpointId!);
    const attempt = { dueAt: dueAt ?? "", handoffId: uuidv7(), checkpointId: checkpointId! };
    const made = await place.repository.recoveryActions.attempt({ tenant: "default", task }, attempt);
    expect(made).toMatchObject({ applied: false, head: { recovery: { state: "waiting" } } });
    expect((await place.attempt(task)).applied).toBe(true);
    const { handoff_id } = await place.head(task);
    expect((await place.handoff(handoff_id!)).checkpoint_id).not.toBe(checkpointId);
  });

  test("three attempts from the newest checkpoint, two from the one before it, then a block", async () => {
    const task = await place.owned(2);
    const { latest_id: poisoned } = await place.head(task);
    const from: (string | null)[] = [];
    for (let n = 2; ; n += 1) {
      const noted = await place.fail(task, { details: `death ${n - 1}` });
      if (!noted.applied || noted.head.recovery?.state === "blocked") break;
      await place.attempt(task);
      const { rung, checkpoint_id } = await place.recovery(task);
      from.push(checkpoint_id === poisoned ? rung : `${rung} elsewhere`);
      // The agent starts, writes nothing new and crashes.
      await place.takeOver(task, `agent-${n}`);
      await place.write(task, `agent-${n}`, { completed: 2 });
    }
    expect(from.slice(0, 1)).toEqual(["latest"]);
    expect(from.slice(1, 3)).toEqual(["latest elsewhere", "latest elsewhere"]);
    expect(from.slice(3)).toEqual(["previous elsewhere", "previous elsewhere"]);
    const { history } = { history: await place.repository.history("default", allOf(task)) };
    expect((await place.recovery(task)).checkpoint_id).toBe(history.checkpoints[0]?.metadata.checkpoint_id);
    expect(await place.head(task)).toMatchObject({ state: "blocked", owner: null, handoff_id: null });
    expect(await place.recovery(task)).toMatchObject({
      attempts: 5,
      failures: 6,
      due_at: null,
      action: "block",
      blocked: { reason: "attempts_spent", details: "death 6" },
    });
    const events = (await place.outbox(task)).slice(-2).map(({ event }) => event);
    expect(events).toMatchObject([
      { type: "AGENT_FAILED", data: { dueAt: null } },
      { type: "TASK_BLOCKED", data: { taskId: task, reason: "attempts_spent" } },
    ]);
    expect(events[1]?.data).not.toHaveProperty("handoffId");
  });

  test("an unrecoverable failure blocks at once", async () => {
    const task = await place.owned();
    await place.fail(task, { class: "unrecoverable", details: "the key is not valid any more" });
    expect(await place.head(task)).toMatchObject({ state: "blocked", owner: null, fence: 2 });
    expect(await place.recovery(task)).toMatchObject({
      failures: 1,
      blocked: { reason: "unrecoverable", details: "the key is not valid any more" },
    });
  });

  test("a next agent that writes nothing has failed like any other", async () => {
    const task = await place.attempted();
    const { handoff_id, fence } = await place.takeOver(task, "agent-2");
    place.now += 900_001;
    await place.repository.handoffActions.lapseHandoff("default", handoff_id);
    expect(await place.recovery(task)).toMatchObject({ state: "attempted", failures: 1 });
    const lapsed = { signal: "handoff_lapsed", class: "timeout", agent_id: "agent-2" } as const;
    expect(await place.fail(task, { ...lapsed, fence: fence as number })).toMatchObject({ applied: true });
    expect(await place.recovery(task)).toMatchObject({ state: "waiting", failures: 2, attempts: 1 });
    expect((await place.attempt(task)).applied).toBe(true);
    expect((await place.handoff((await place.head(task)).handoff_id as string)).recovery).toEqual({
      attempt: 2,
      class: "timeout",
    });
  });

  test("a next agent that releases the task without a write has failed too", async () => {
    const task = await place.attempted();
    const { handoff_id, fence } = await place.takeOver(task, "agent-2");
    await send(place.repository, "release", {}, { task, agent: "agent-2", fence: fence as number });
    place.now += 900_001;
    await place.repository.handoffActions.lapseHandoff("default", handoff_id);
    const lapsed = { signal: "handoff_lapsed", class: "timeout", agent_id: "agent-2" } as const;
    expect(await place.fail(task, { ...lapsed, fence: fence as number })).toMatchObject({ applied: true });
    expect(await place.recovery(task)).toMatchObject({ state: "waiting", failures: 2 });
  });

  test("a late first checkpoint completes the attempt if the failure is not recorded yet", async () => {
    const task = await place.attempted();
    const { handoff_id, fence } = await place.takeOver(task, "agent-2");
    place.now += 900_001;
    await place.repository.handoffActions.lapseHandoff("default", handoff_id);
    await place.write(task, "agent-2", { completed: 1 });
    expect(await place.recovery(task)).toMatchObject({ state: "resumed", attempts: 1 });
    expect((await place.events(task)).at(-1)).toBe("RECOVERY_COMPLETED");
    const lapsed = { signal: "handoff_lapsed", class: "timeout", agent_id: "agent-2" } as const;
    expect(await place.fail(task, { ...lapsed, fence: fence as number })).toEqual({
      applied: false,
      why: "written",
    });
    expect(await place.head(task)).toMatchObject({ owner: "agent-2", fence });
  });

  test("the handoff ends when the agent that accepted it fails", async () => {
    const task = await place.attempted();
    const { handoff_id } = await place.takeOver(task, "agent-2");
    expect(await place.fail(task)).toMatchObject({ applied: true });
    expect(await place.handoff(handoff_id)).toMatchObject({
      state: "cancelled",
      failure: { reason: "agent_failed", details: "crash" },
    });
    expect(await place.head(task)).toMatchObject({ state: "active", owner: null, handoff_id: null });
    expect(await place.recovery(task)).toMatchObject({ state: "waiting", failures: 2 });
  });

  test("an attempt that no agent accepts blocks the task", async () => {
    const task = await place.attempted();
    const { handoff_id } = await place.head(task);
    await offer(place.repository, handoff_id as string);
    await place.escalate(handoff_id as string, "no agent of the type is available");
    expect(await place.head(task)).toMatchObject({ state: "blocked" });
    expect(await place.recovery(task)).toMatchObject({
      state: "blocked",
      blocked: { reason: "no_agent", details: "no agent of the type is available" },
    });
  });

  test("a checkpoint corrupted after it was chosen is passed over at the next attempt", async () => {
    const task = await place.owned(2);
    await place.fail(task);
    const { head } = await place.attempt(task);
    const id = head?.handoff_id as string;
    await place.repository.handoffActions.rejectHandoff("default", id, { reason: "hash_broken" });
    expect(await place.head(task)).toMatchObject({ state: "active", recovery: { state: "attempted" } });
    const rejected = { signal: "handoff_rejected", class: "corrupt_state", agent_id: null } as const;
    expect(await place.fail(task, rejected)).toMatchObject({ applied: true, head: { state: "active" } });
    expect(await place.recovery(task)).toMatchObject({
      state: "waiting",
      rung: "previous",
      avoid_id: head?.latest_id,
      failures: 2,
    });
    expect(await place.fail(task, rejected)).toMatchObject({ applied: false, why: "superseded" });
    await place.attempt(task);
    const { checkpoints } = await place.repository.history("default", allOf(task));
    expect((await place.recovery(task)).checkpoint_id).toBe(checkpoints[0]?.metadata.checkpoint_id);
  });

  test("a rejected handoff revokes the ownership of its living agent, and an earlier checkpoint continues", async () => {
    const task = await place.owned();
    const { checkpoint_id: id } = await place.write(task, "agent-1", { phase: "handoff" });
    await place.repository.handoffActions.rejectHandoff("default", id, { reason: "hash_broken" });
    const rejected = { signal: "handoff_rejected", class: "corrupt_state", agent_id: null } as const;
    expect(await place.fail(task, rejected)).toMatchObject({ applied: true });
    expect(await place.head(task)).toMatchObject({ state: "active", owner: null, fence: 2 });
    await place.attempt(task);
    expect((await place.recovery(task)).checkpoint_id).not.toBe(id);
  });

  test("a broken chain blocks the task", async () => {
    const task = await place.attempted();
    const { handoff_id: id } = await place.head(task);
    const broken = { reason: "chain_broken", details: "checkpoint x does not verify" } as const;
    await place.repository.handoffActions.rejectHandoff("default", id as string, broken);
    expect(await place.recovery(task)).toMatchObject({
      state: "blocked",
      blocked: { reason: "chain_broken", details: "checkpoint x does not verify" },
    });
    const rejected = { signal: "handoff_rejected", class: "corrupt_state", agent_id: null } as const;
    expect(await place.fail(task, rejected)).toMatchObject({ applied: false, why: "blocked" });
  });

  test.each([
    ["taken", (task: string) => send(place.repository, "take", {}, { task, agent: "somebody" })],
    ["handed off", (task: string) => send(place.repository, "handoff", {}, { task, agent: "somebody" })],
    ["handed off by a checkpoint", (task: string) => place.write(task, "somebody", { phase: "handoff" })],
  ])("a task that is %s meanwhile is not recovered", async (_how, act) => {
    for (const bring of [waiting, blocked]) {
      const task = await bring(place);
      await act(task);
      expect(await place.recovery(task)).toMatchObject({ state: "idle", due_at: null, choice: null });
      expect((await place.outbox(task)).map(({ event }) => event)).toContainEqual(
        expect.objectContaining({
          type: "RECOVERY_SETTLED",
          data: { taskId: task, reason: "superseded" },
        }),
      );
    }
  });

  test("a take ends an open attempt", async () => {
    const task = await place.attempted();
    const { handoff_id } = await place.head(task);
    await send(place.repository, "take", {}, { task, agent: "somebody" });
    expect(await place.handoff(handoff_id as string)).toMatchObject({ state: "cancelled" });
    expect(await place.recovery(task)).toMatchObject({ state: "idle", attempts: 1, failures: 1 });
  });

  test("a task that ends is not recovered, in any state of its recovery", async () => {
    for (const bring of [waiting, attempted, resumed, blocked]) {
      const task = await bring(place);
      const { latest_id, owner, fence } = await place.head(task);
      await finalize(place.repository, latest_id as string, "failed", {
        task,
        agent: owner ?? "somebody",
        fence,
      });
      expect(await place.head(task)).toMatchObject({ state: "failed", recovery: { state: "idle" } });
      expect((await place.dueRecoveries()).map((due) => due.task)).not.toContain(task);
    }
  });

  test("the parent of the next agent's first checkpoint is the recovery point, not a newer checkpoint", async () => {
    const task = await place.owned(2);
    await place.fail(task, { class: "corrupt_state" });
    const { head } = await place.attempt(task);
    const { checkpoint_id: from } = await place.handoff(head?.handoff_id as string);
    expect(from).not.toBe(head?.latest_id);
    await place.takeOver(task, "agent-2");
    const { checkpoint_id: first } = await place.write(task, "agent-2", { completed: 1 });
    const { metadata, recovery } = await place.repository.get("default", first);
    expect(metadata.parent_ids).toEqual([from]);
    expect(recovery.last_successful_state).toBe(from);
    const next = await place.write(task, "agent-2", { completed: 1 });
    expect((await place.repository.get("default", next.checkpoint_id)).metadata.parent_ids).toEqual([first]);
  });
});

const allOf = (task: string) => ({ task_id: task, order: "oldest", limit: 50 }) as const;

async function waiting(place: TestTasks): Promise<string> {
  const task = await place.owned();
  await place.fail(task);
  return task;
}

async function blocked(place: TestTasks): Promise<string> {
  const task = await place.owned();
  await place.fail(task, { class: "unrecoverable" });
  return task;
}

const attempted = (place: TestTasks) => place.attempted();
const resumed = (place: TestTasks) => place.resumed();
