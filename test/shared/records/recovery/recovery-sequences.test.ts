// Random sequences of commands and of the services' operations, checked against the invariants of recoveries.

import fc from "fast-check";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createChainVerifier } from "../../../../shared/integrity/chain.ts";
import { replacesRecovery } from "../../../../shared/lifecycle/handoff.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { FAILURE_CLASSES } from "../../../../shared/protocol/exit-report.ts";
import { isOpenHandoff } from "../../../../shared/protocol/handoff-states.ts";
import { DEFAULT_POLICY, type Policies } from "../../../../shared/protocol/policy.ts";
import {
  FAILURE_SIGNALS,
  RECOVERY_STATES,
  type RecoveryState,
} from "../../../../shared/protocol/recovery-states.ts";
import { isEnded, type Task } from "../../../../shared/protocol/task.ts";
import { systemKeys } from "../../../../shared/records/kv/keyspace.ts";
import { duePlaceOf } from "../../../../shared/records/recovery/due.ts";
import { acknowledge, offering } from "../../../harness/records/handoffs.ts";
import { ENGINES, finalize, send } from "../../../harness/records/records.ts";
import { advanceRecovery } from "../../../harness/records/recoveries.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const ATTEMPTS = 2;
const PREVIOUS = 1;
const policies: Policies = {
  defaults: {
    next_agent: { by_next_phase: { complete: "qa" } },
    recovery: {
      ...{ attempts: ATTEMPTS, previous_attempts: PREVIOUS, window_attempts: 5, half_open_ms: 600_000 },
      ...{ back_off_ms: 1_000, back_off_max_ms: 4_000, silence_ms: 1_000 },
    },
  },
  tenants: {},
};

const begins = fc.constantFrom("owned", "owned", "resumed");

const step = fc.record({
  op: fc.constantFrom(
    ...(["write", "write", "hand", "take", "release", "handoff", "finalize", "cancel_handoff"] as const),
    ...(["withdraw", "withdraw", "withdraw", "complete", "complete"] as const),
    ...(["take_blocked", "take_blocked", "fork"] as const),
    ...(["fail", "fail", "fail", "carry_on", "carry_on", "carry_on", "probe", "recover"] as const),
    ...(["offer", "accept", "reject", "escalate", "lapse", "wait", "sweep"] as const),
    ...(Array.from({ length: 24 }, () => "forward") as "forward"[]),
  ),
  agent: fc.constantFrom("a", "b"),
  class: fc.constantFrom(...FAILURE_CLASSES),
  signal: fc.constantFrom(...FAILURE_SIGNALS),
  isRight: fc.boolean(),
  count: fc.integer({ min: 1, max: 5 }),
  agent_type: fc.constantFrom("qa", "legal", null),
});
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

const UNRECOVERABLE = { class: "unrecoverable", signal: "exit_report" } as const;

const wanted = (task: Task): string => duePlaceOf(task).agentType;

describe.each(ENGINES)("recoveries in any order on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine, policies);
  });
  afterAll(() => place.close());

  /** The operation that advances a recovery from its present state. */
  async function forward(task: string): Promise<Step["op"]> {
    const { recovery, handoff_id } = await place.head(task);
    const open = handoff_id === null ? null : await place.handoff(handoff_id);
    if (open !== null)
      return open.state === "accepted" ? "write" : open.state === "offered" ? "accept" : "offer";
    if (recovery?.state === "waiting") return "carry_on";
    return recovery?.state === "blocked" ? "recover" : "fail";
  }

  /** Hands the task off to `qa` the first time, and then ends it. */
  async function complete({ task_id: task, fence }: Task, agent: string, completed: number) {
    const { checkpoint_id } = await place.write(task, agent, { completed, phase: "complete" });
    return finalize(place.repository, checkpoint_id, "succeeded", { task, agent, fence });
  }

  /** The tasks that began as forks of the task under test. */
  const forks: string[] = [];

  async function forkOf(task: string, agent: string): Promise<void> {
    const fork = place.fresh();
    await send(place.repository, "fork", { source_task_id: task }, { task: fork, agent });
    forks.push(fork);
  }

  async function run(task: string, { op, agent, isRight, count, ...failed }: Step): Promise<unknown> {
    if (op === "sweep") return place.sweepAllDrafts();
    const known = await place.head(task);
    const { repository } = place;
    const by = { task, agent, fence: known.fence };
    const last = await repository.handoff("default", { task_id: task }).catch(() => null);
    const id = last?.handoff_id ?? uuidv7();
    const dueAt = known.recovery?.due_at ?? "";
    switch (op) {
      case "forward":
        return run(task, { ...failed, op: await forward(task), agent, count, isRight: true });
      case "withdraw":
        if (known.recovery?.state === "waiting")
          await run(task, { ...failed, op: isRight ? "carry_on" : "handoff", agent, count, isRight });
        return send(repository, "cancel_handoff", {}, by);
      case "take_blocked":
        if (known.state !== "blocked")
          await run(task, { ...failed, op: "fail", ...UNRECOVERABLE, ...{ agent, isRight: true, count } });
        await send(repository, "take", {}, { task, agent });
        if (isRight) await run(task, { ...failed, op: "fail", signal: "exit_report", agent, isRight, count });
        return;
      case "fork":
        return forkOf(task, agent);
      case "write":
        return place.write(task, known.owner ?? agent, { completed: count });
      case "hand":
        return place.write(task, known.owner ?? agent, { completed: count, phase: "handoff" });
      case "complete":
        return complete(known, known.owner ?? agent, count);
      case "finalize":
        return isRight && finalize(repository, known.latest_id ?? uuidv7(), "failed", by);
      case "recover":
        return send(repository, "recover", { reset: isRight, force: count > 2 }, { task, agent });
      case "fail":
        return place.fail(task, { ...failed, agent_id: isRight ? known.owner : agent });
      case "carry_on":
        if (dueAt !== "" && isRight) place.now = Math.max(place.now, Date.parse(dueAt));
        return known.recovery?.state === "waiting" && advanceRecovery(repository, task);
      case "probe":
        return repository.recoveryActions.probe({ tenant: "default", task }, { dueAt });
      case "offer":
        return (
          last &&
          repository.handoffActions.offerHandoff("default", id, { ...offering(last), toAgentType: "qa" })
        );
      case "accept":
        return last && acknowledge(repository, last, { agent });
      case "reject":
        return repository.handoffActions.rejectHandoff("default", id, {
          reason: isRight ? "hash_broken" : "chain_broken",
        });
      case "escalate":
        if (isRight && last?.state === "offered")
          place.now = Math.max(place.now, Date.parse(last.deadline ?? ""));
        return repository.handoffActions.escalateHandoff("default", id, {
          ...{ attempt: last?.attempt ?? 0, reason: "no_agent", toAgentType: "qa" },
        });
      case "lapse":
        if (isRight && last?.deadline) place.now = Math.max(place.now, Date.parse(last.deadline));
        return repository.handoffActions.lapseHandoff("default", id);
      case "wait":
        place.now += isRight ? 1_000 : 600_001;
        return;
      default:
        return send(repository, op, {}, by);
    }
  }

  /** Checks the invariants after a step. */
  async function requireSound(task: string): Promise<void> {
    const head = await place.head(task);
    const { recovery, owner, state, handoff_id, blocked } = head;
    const [due, recovering] = await Promise.all([place.dueRecoveries(), place.recovering()]);
    const dueAt = recovery?.due_at ?? null;
    expect(due.filter((one) => one.task === task).map(({ key }) => key)).toEqual(
      dueAt === null
        ? []
        : [Buffer.from(systemKeys.recoveryDue(Date.parse(dueAt), "default", task)).toString("hex")],
    );
    expect(recovering.includes(task)).toBe(recovery !== null && recovery.state !== "idle");
    const waits = blocked !== null && blocked.taken_by === null;
    expect(recovery?.state === "blocked").toBe(waits);
    const open = handoff_id === null ? null : await place.handoff(handoff_id);
    if (open !== null) expect(isOpenHandoff(open.state)).toBe(true);
    // The owner continues the task when its handoff is cancelled.
    if (open !== null && replacesRecovery(open) && open.state !== "accepted") expect(owner).toBe(null);
    expect(blocked !== null).toBe(state === "blocked");
    if (blocked?.taken_by != null) expect(owner).toBe(blocked.taken_by);
    if (recovery === null) {
      expect(open?.recovery ?? null).toBe(null);
      return;
    }
    if (open !== null && open.recovery !== null)
      expect(recovery).toMatchObject({ state: "attempted", handoff_id });
    if (isEnded(state)) expect(recovery.state).toBe("idle");
    expect(recovery.rung_attempts).toBeLessThanOrEqual(recovery.attempts);
    if (recovery.state === "blocked") expect(blocked).toMatchObject({ taken_by: null });
    switch (recovery.state) {
      case "waiting":
        expect({ owner, handoff_id, state }).toEqual({ owner: null, handoff_id: null, state: "active" });
        expect(dueAt).not.toBe(null);
        break;
      case "attempted":
        expect(dueAt).toBe(null);
        break;
      case "blocked":
        expect({ state, handoff_id }).toEqual({ state: "blocked", handoff_id: null });
        break;
      default:
        expect(dueAt).toBe(null);
    }
  }

  /** While the task has no owner after a failure, a recovery is due or open, or operators were alerted. */
  async function requireBroughtOn(task: string): Promise<boolean> {
    const { state, owner, handoff_id, recovery, blocked } = await place.head(task);
    let [isLeft, hasFailed, isOwned] = [false, false, true];
    for (const entry of (await place.trail(task)) as Record<string, string>[]) {
      const { op, state_to } = entry;
      if (op === "fail" || op === "retry" || op === "release") isOwned = false;
      if (op === "take" || op === "acknowledge") isOwned = true;
      if (op === "fail" || op === "retry") hasFailed = true;
      // Only a task that has lost an agent is left to its recovery.
      const isBlocked = hasFailed && !isOwned && entry.recovery_to === "blocked";
      if (op === "fail" || op === "retry" || isBlocked) isLeft = true;
      // An ended task needs no owner.
      const isOver = isEnded(state_to as Task["state"]);
      if (op === "take" || op === "acknowledge" || isOver) isLeft = false;
    }
    if (!isLeft) return false;
    expect(owner).toBe(null);
    if (handoff_id === null && state !== "blocked") {
      const last = await place.repository.handoff("default", { task_id: task }).catch(() => null);
      // The watchdogs record the failure of an attempt whose checkpoint broke after it was chosen.
      const isCorrupt = recovery?.state === "attempted" && last?.failure?.reason === "hash_broken";
      if (!isCorrupt) expect(recovery?.state).toBe("waiting");
    }
    return blocked?.reason === "withdrawn";
  }

  /** Checks that a replay of the audit trail yields the head. */
  async function requireReplay(task: string): Promise<void> {
    const { stored, replayed } = await place.replayed(task);
    expect(replayed).toEqual(stored);
  }

  /** Checks the audit trail: transitions follow the table, and loops stay within the budget (guarantee 11). */
  async function requireStory(task: string): Promise<void> {
    const [entries, { audit_seq, audit_hash, recovery }] = await Promise.all([
      place.trail(task),
      place.head(task),
    ]);
    const verifier = createChainVerifier();
    const page = await place.repository.audit("default", { task_id: task, from_seq: 1, limit: 500 });
    for (const record of page.entries) verifier.add(record);
    expect(verifier.finish({ seq: audit_seq, hash: audit_hash }).problems).toEqual([]);
    requireOneAlert(entries as Record<string, string>[]);
    let [state, attempts]: [RecoveryState, number] = ["idle", 0];
    for (const entry of entries as Record<string, string>[]) {
      if (entry.recovery_to === undefined) continue;
      expect(entry.recovery_from).toBe(state);
      state = entry.recovery_to as RecoveryState;
      if (entry.attempt !== undefined && entry.op !== "resume") attempts += 1;
      // An operator's request or a probe grants one attempt more than the budget at a time.
      if (entry.op === "retry") attempts = entry.reset === "yes" ? 0 : attempts - 1;
      if (entry.op === "settle" && entry.reason === "progress") attempts = 0;
      expect(attempts).toBeLessThanOrEqual(ATTEMPTS + PREVIOUS);
    }
    expect(recovery?.state ?? "idle").toBe(state);
  }

  /**
   * A block has one alert: a block for the same reason without progress or a request since then is the same
   * block.
   */
  function requireOneAlert(entries: readonly Record<string, string>[]): void {
    for (const [i, { alerted_seq: alerted, reason }] of entries.entries()) {
      if (alerted === undefined) continue;
      const [first, ...between] = entries.slice(Number(alerted) - 1, i);
      expect(["block", "reject", "escalate"]).toContain(first?.op);
      if (first?.op === "block") expect(first).toMatchObject({ reason });
      expect(first).not.toHaveProperty("alerted_seq");
      expect(between.filter((one) => one.op === "settle" && one.reason === "progress")).toEqual([]);
      expect(between.filter((one) => one.op === "retry" && one.command_id !== null)).toEqual([]);
      expect(between.filter((one) => isEnded(one.state_to as Task["state"]))).toEqual([]);
    }
  }

  /** The ends of tasks that were taken while they were blocked. */
  async function leftAgain(task: string): Promise<string[]> {
    const entries = (await place.trail(task)) as Record<string, string>[];
    return entries.flatMap(({ op, alerted_seq }, i) => {
      const before = entries[i - 1];
      if (op !== "block" || alerted_seq === undefined) return [];
      return before?.op === "release" || before?.state_from === "blocked" ? [`left by ${before.op}`] : [];
    });
  }

  async function listedAsBlocked(): Promise<string[]> {
    const names: string[] = [];
    let cursor: string | undefined;
    do {
      const query = { state: "blocked", limit: 100, ...(cursor !== undefined && { cursor }) } as const;
      const page = await place.repository.recoveries("default", query);
      names.push(...page.tasks.map(({ task_id }) => task_id));
      cursor = page.cursor;
    } while (cursor !== undefined);
    return names;
  }

  async function requireCounted(tasks: readonly string[]): Promise<void> {
    const heads: Task[] = await Promise.all(tasks.map((task) => place.head(task)));
    const states = heads.flatMap(({ recovery }) => (recovery === null ? [] : [recovery.state]));
    const counted = RECOVERY_STATES.map((state) => [state, states.filter((one) => one === state).length]);
    expect(await place.repository.recoveryActions.counts()).toEqual(Object.fromEntries(counted));
    const waiting = heads.filter(({ blocked }) => blocked !== null && blocked.taken_by === null);
    expect(new Set(await listedAsBlocked())).toEqual(new Set(waiting.map(({ task_id }) => task_id)));
    const open = heads.filter(({ recovery }) => recovery?.state === "attempted").map(wanted);
    for (const agentType of new Set(heads.map(wanted))) {
      const attempts = await place.repository.recoveryActions.attempts({ tenant: "default", agentType });
      expect(attempts).toBe(open.filter((one) => one === agentType).length);
    }
  }

  test("follow the table, the budget, one due entry, the index and the counters", async () => {
    const tasks: string[] = [];
    const met = new Set<string>();
    await fc.assert(
      fc.asyncProperty(begins, fc.array(step, { minLength: 6, maxLength: 40 }), async (begin, steps) => {
        // Ids of commands that are made now must not be from long ago.
        place.now = Date.now();
        const task = await place[begin]();
        tasks.push(task);
        for (const one of steps) {
          await run(task, one).catch((error: unknown) => {
            expect(error).toBeInstanceOf(FleetError);
            expect(["INVALID", "CONFLICT", "FENCED", "NOT_FOUND", "FINALIZED"]).toContain(
              (error as FleetError).code,
            );
          });
          await requireSound(task);
          if (await requireBroughtOn(task)) met.add("withdrawn");
          met.add((await place.head(task)).recovery?.state ?? "none");
        }
        for (const one of [task, ...forks.splice(0)]) {
          await requireStory(one);
          await requireReplay(one);
        }
        await requireCounted(tasks);
        for (const way of await leftAgain(task)) met.add(way);
      }),
      { numRuns: engine === "memory" ? 120 : 25 },
    );
    // Otherwise the sequences prove nothing.
    const ways = ["none", "withdrawn", "left by fail", ...RECOVERY_STATES];
    expect([...met].sort()).toEqual(expect.arrayContaining(ways));
  }, 120_000);

  test("a crash loop with useless writes makes no more attempts than the budget, and stays blocked", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({ writes: fc.integer({ min: 0, max: 3 }), lives: fc.boolean(), signal: fc.nat(2) }),
          { minLength: 8, maxLength: 8 },
        ),
        async (lives) => {
          const task = await place.owned(3);
          for (const { writes, lives: takes, signal } of lives) {
            if ((await place.head(task)).owner !== null) {
              const failed = { signal: (["exit_report", "lease_lapsed", "step_overdue"] as const)[signal]! };
              place.now += DEFAULT_POLICY.recovery.silence_ms;
              await place.fail(task, failed);
            }
            const { state } = await place.recovery(task);
            if (state === "blocked") break;
            if (state === "waiting") await place.attempt(task);
            await place.takeOver(task, takes ? "a" : "b");
            for (let n = 0; n < writes; n += 1) await place.write(task, "junk", { completed: 3 });
          }
          expect(await place.recovery(task)).toMatchObject({
            state: "blocked",
            attempts: ATTEMPTS + PREVIOUS,
            blocked: { reason: "attempts_spent" },
          });
        },
      ),
      { numRuns: engine === "memory" ? 30 : 8 },
    );
  }, 60_000);
});
