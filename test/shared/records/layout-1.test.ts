// A store of the first layout, written by an earlier version: its tasks keep their meaning, and continue.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectedRecoveryType } from "../../../shared/lifecycle/routing.ts";
import { WHOLE_BUDGET } from "../../../shared/lifecycle/task.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import type { RecoveryState } from "../../../shared/protocol/recovery-states.ts";
import { stepDraftSweep } from "../../../shared/records/drafts/superseded-drafts.ts";
import { readHandoffCounts } from "../../../shared/records/kv/counters.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { isFirstHead } from "../../../shared/records/task/head.ts";
import { scrub } from "../../harness/records/scrub.ts";
import { ANSWERS, DAMAGED, type FirstTask, StoreCopy, TASKS, TENANTS } from "./layout-1/fixture.ts";
import { complete, takeAnyStep } from "./layout-1/steps.ts";

const ENGINES = ["memory", "lmdb"] as const;
const READ = { label: "test", deadlineMs: 20_000 } as const;
const FOREVER_MS = 8.64e15;

/** How an answer of the first layout reads today. */
function presentView({ block, recovery, ...head }: FirstTask): Record<string, unknown> {
  const recoveryBlock = recovery?.blocked ?? null;
  const isRetried = head.state === "blocked" && recovery?.state === "attempted";
  // A handoff of a corrupt checkpoint blocked the task only until the watchdogs recorded it.
  const state = isRetried && (block?.reason ?? null) === null ? "active" : head.state;
  const isTaken = head.owner !== null && block !== null && head.fence > block.fence;
  // The first layout did not show a block by a handoff as a recovery.
  const waits = state === "blocked" && !isTaken;
  const budget = recovery && { ...WHOLE_BUDGET, ...recovery, choice: recovery.wish };
  const to_agent_type = expectedRecoveryType({ ...head, completion_seq: null, budget });
  const shown = recovery && { ...presentRecovery(recovery), to_agent_type };
  return {
    ...head,
    state,
    origin: null,
    recovery: waits ? { ...(shown ?? { ...NO_FAILURE, to_agent_type }), state: "blocked" } : shown,
    blocked:
      state !== "blocked"
        ? null
        : {
            reason: block?.reason ?? recoveryBlock?.reason ?? "checkpoint_corrupt",
            details: block?.details ?? recoveryBlock?.details ?? null,
            at: recoveryBlock?.at ?? expect.any(String),
            alert_seq: block?.seq ?? null,
            taken_by: isTaken ? head.owner : null,
          },
  };
}

const { resumed: _resumed, ...WHOLE } = WHOLE_BUDGET;
const NO_FAILURE = { ...WHOLE, completed_items: 0, due_at: null };

function presentRecovery({
  blocked: _blocked,
  wish: choice,
  ...recovery
}: NonNullable<FirstTask["recovery"]>) {
  return { ...recovery, choice };
}

async function totalsOf({ store, repository }: StoreCopy) {
  const { recoveryActions, handoffActions } = repository;
  const kinds = Object.keys(ANSWERS.expected.open_attempts).map(
    (name) => name.split("/") as [string, string],
  );
  const [attempts, dueRecoveries, dueHandoffs, recovering] = await Promise.all([
    Promise.all(kinds.map(([tenant, agentType]) => recoveryActions.attempts({ tenant, agentType }))),
    recoveryActions.due(FOREVER_MS, 1_000),
    handoffActions.dueHandoffs(FOREVER_MS, 1_000),
    Promise.all(TENANTS.map((tenant) => repository.recoveries(tenant, { limit: 1_000 }))),
  ]);
  return {
    recovery_counts: await recoveryActions.counts(),
    handoff_counts: await store.read(READ, readHandoffCounts),
    open_attempts: Object.fromEntries(kinds.map((kind, n) => [kind.join("/"), attempts[n]])),
    due_recoveries: dueRecoveries.map(({ tenant, task_id }) => `${tenant}/${task_id}`),
    due_handoffs: dueHandoffs.map(
      ({ tenant, task_id, handoff_id, state }) => `${tenant}/${task_id} ${handoff_id} ${state}`,
    ),
    recovering: Object.fromEntries(
      recovering.map(({ tasks }, n) => [
        TENANTS[n],
        tasks.map(({ task_id, recovery }) => `${task_id} ${recovery?.state}`),
      ]),
    ),
  };
}

interface ShownTask {
  readonly tenant: string;
  readonly task: string;
  readonly from: RecoveryState | null;
}

/** The tasks that a handoff blocked: the first layout neither listed nor counted them as blocked. */
const NEWLY_SHOWN: readonly ShownTask[] = TASKS.flatMap(({ tenant, task, head }) => {
  const { recovery } = presentView(head) as { recovery: { state: string } | null };
  const from = (head.recovery?.state ?? null) as RecoveryState | null;
  return recovery?.state === "blocked" && from !== "blocked" ? [{ tenant, task, from }] : [];
});

/** How the totals of the first layout read today. `upgraded`: after a scrub, which adds what the index lacks. */
function presentTotals(upgraded: boolean): unknown {
  const { expected } = ANSWERS;
  const counts: Record<string, number> = { ...expected.recovery_counts };
  for (const { from } of upgraded ? NEWLY_SHOWN : []) {
    if (from !== null) counts[from] = (counts[from] ?? 0) - 1;
    counts.blocked = (counts.blocked ?? 0) + 1;
  }
  const recovering = Object.entries(expected.recovering).map(([tenant, lines]) => {
    const shown = NEWLY_SHOWN.filter((one) => one.tenant === tenant);
    const names = new Set(shown.map(({ task }) => task));
    const kept = (lines as string[]).map((line) => {
      const [task = ""] = line.split(" ");
      return names.delete(task) ? `${task} blocked` : line;
    });
    const added = upgraded ? [...names].map((task) => `${task} blocked`) : [];
    return [tenant, [...kept, ...added].sort()];
  });
  return { ...expected, recovery_counts: counts, recovering: Object.fromEntries(recovering) };
}

/** Makes a complete pass; resolves with its findings of all tenants. */
async function scrubbed(copy: StoreCopy) {
  copy.now += 1_000;
  const now = () => {
    copy.now += 1;
    return copy.now;
  };
  const { pass } = await scrub(copy, { now });
  const limit = LIMITS.scrub_findings_limit_max;
  const pages = await Promise.all(TENANTS.map((tenant) => copy.repository.scrubFindings(tenant, { limit })));
  return { pass, findings: pages.flatMap(({ findings }) => findings) };
}

async function firstHeads({ store }: StoreCopy): Promise<string[]> {
  return store.read(READ, async (reader) => {
    const values = await Promise.all(
      TASKS.map(({ tenant, task }) => reader.get(tenantKeys(tenant).task(task))),
    );
    return TASKS.filter((_, n) => isFirstHead(values[n] ?? new Uint8Array())).map(({ task }) => task);
  });
}

async function expectAnswers({ repository }: StoreCopy): Promise<void> {
  const heads = await Promise.all(TASKS.map(({ tenant, task }) => repository.task(tenant, task)));
  for (const [n, { description, head }] of TASKS.entries()) {
    expect(heads[n], description).toEqual(presentView(head));
  }
}

describe.each(ENGINES)("a store of the first layout on %s", (engine) => {
  let copy: StoreCopy;
  beforeAll(async () => {
    copy = await StoreCopy.open(engine);
  });
  afterAll(() => copy.close());

  test("its tasks are answered as before", () => expectAnswers(copy));

  test("its open handoffs are answered as before", async () => {
    for (const { tenant, open_handoff } of TASKS) {
      if (open_handoff === undefined) continue;
      const { handoff_id } = open_handoff;
      expect(await copy.repository.handoff(tenant, { handoff_id })).toEqual({
        ...open_handoff,
        offer_digest: null,
      });
    }
  });

  test("its counters and lists are answered as before", async () => {
    expect(await totalsOf(copy)).toEqual(presentTotals(false));
  });

  test("a scrub finds nothing and writes every head in the present form", async () => {
    expect(await firstHeads(copy)).toHaveLength(TASKS.length);
    const first = await scrubbed(copy);
    expect(first.findings).toEqual(ANSWERS.findings);
    expect(first.pass).toMatchObject({ tasks: TASKS.length, quarantined: DAMAGED.size, findings: 0 });
    expect(await firstHeads(copy)).toEqual([]);
    await expectAnswers(copy);
    expect(await totalsOf(copy)).toEqual(presentTotals(true));
    const second = await scrubbed(copy);
    expect(second.findings).toEqual(ANSWERS.findings);
  });
});

test("a scrub that stopped inside a task continues, and the next one upgrades the heads before it", async () => {
  const copy = await StoreCopy.open("memory", { more: ANSWERS.scrub_in_progress });
  expect((await scrubbed(copy)).findings).toEqual(ANSWERS.findings);
  const before = await firstHeads(copy);
  expect(before.length).toBeLessThan(TASKS.length / 10);
  expect((await scrubbed(copy)).findings).toEqual(ANSWERS.findings);
  expect(await firstHeads(copy)).toEqual([]);
  await copy.close();
});

test("its superseded drafts are finalized, and its tasks are what they were", async () => {
  const copy = await StoreCopy.open("memory");
  await scrubbed(copy);
  const { store } = copy;
  const { incarnation } = await openFormat(store);
  const policies = DEFAULT_POLICIES;
  const drafts = { store, incarnation, service: "writer", now: () => copy.now, policies, afterMs: 60_000 };
  let finalized = 0;
  for (let more = true; more; ) {
    const step = await stepDraftSweep(drafts);
    expect(step.skipped.filter(({ task }) => !DAMAGED.has(task))).toEqual([]);
    finalized += step.finalized;
    more = step.more;
  }
  expect(finalized).toBeGreaterThan(0);
  const heads = await Promise.all(TASKS.map(({ tenant, task }) => copy.repository.task(tenant, task)));
  for (const [n, { description, head }] of TASKS.entries()) {
    const { audit_seq: _seq, audit_hash: _hash, ...view } = presentView(head);
    expect(heads[n], description).toMatchObject(view);
  }
  expect(await totalsOf(copy)).toEqual(presentTotals(true));
  expect((await scrubbed(copy)).findings).toEqual(ANSWERS.findings);
  await copy.close();
});

/** In each round, every task takes another step from where the first layout left it. */
const ROUNDS = [
  ["memory", 0],
  ["memory", 1],
  ["memory", 2],
  ["lmdb", 3],
] as const;
const STRIDE = 5;
const TIMEOUT = { timeout: 60_000 };

test.each(ROUNDS)("every task continues and completes on %s, round %i", TIMEOUT, async (engine, round) => {
  const copy = await StoreCopy.open(engine);
  for (const [n, { tenant, task }] of TASKS.entries()) {
    await takeAnyStep(copy, tenant, task, n + round * STRIDE);
  }
  expect((await scrubbed(copy)).findings).toEqual([]);
  const states = new Set<string>();
  for (const { tenant, task } of TASKS) states.add((await complete(copy, tenant, task)).state);
  expect([...states]).toEqual(["completed"]);
  expect((await scrubbed(copy)).findings).toEqual([]);
  await expectNothingOpen(copy);
  await copy.close();
});

async function expectNothingOpen(copy: StoreCopy): Promise<void> {
  const { recovery_counts, handoff_counts, open_attempts, ...lists } = await totalsOf(copy);
  expect(recovery_counts).toMatchObject({ waiting: 0, attempted: 0, resumed: 0, blocked: 0 });
  expect(handoff_counts).toMatchObject({ requested: 0, validated: 0, offered: 0, accepted: 0 });
  expect(new Set(Object.values(open_attempts))).toEqual(new Set([0]));
  expect(lists).toEqual({ due_recoveries: [], due_handoffs: [], recovering: { default: [], acme: [] } });
}
