/** The work of a worker on a task: item after item, until the task is complete or a failure of its kind or a random failure occurs. */
import { setTimeout as sleep } from "node:timers/promises";
import { hashOf } from "../../../../shared/integrity/seal.ts";
import type { FailureClass } from "../../../../shared/protocol/exit-report.ts";
import { whenAborted } from "../../../../shared/runtime/clock.ts";
import type { AgentRun } from "../../../../shared/sdk/agent/run.ts";
import { type HistorySink, instant, type LifecycleLine } from "../agents/history.ts";
import { isHit, type KillPlan } from "../environment/kill-points.ts";
import { FAILURE_AT, kindOf, type TaskKind } from "./task-kinds.ts";

/** The reason why a worker gives up, with the failure class of its report. */
export class WorkFailure extends Error {
  readonly class: FailureClass;

  constructor(failureClass: FailureClass) {
    super(`the work failed: ${failureClass}`);
    this.class = failureClass;
  }
}

export interface WorkerContext {
  readonly agent: string;
  readonly history: HistorySink;
  readonly random: () => number;
  readonly kills: KillPlan;
  /** Requests that the parent damages a checkpoint and then kills this process. */
  readonly damage: (task: string, checkpointId: string) => void;
}

const ITEM_MS = { least: 100, most: 500 };
const RANDOM_FAILURES = { fails: 0.02, hangs: 0.012 } as const;
const RANDOM_CLASSES: readonly FailureClass[] = [
  "crash",
  "timeout",
  "out_of_memory",
  "rate_limit",
  "context_exhausted",
  "tool_error",
];
const STEP_MS = 1_000;
/** A hanging worker continues after this time if its ownership was not revoked. */
const HANG_MS = 20_000;
/** A worker that requested damage continues after this time if it was not killed. */
const DAMAGE_WAIT_MS = 15_000;

export async function work(run: AgentRun, context: WorkerContext): Promise<void> {
  const { random } = context;
  const kind = kindOf(run.taskId) ?? "normal";
  await recordBegin(run, context);
  for (const item of run.items()) {
    await sleep(ITEM_MS.least + random() * (ITEM_MS.most - ITEM_MS.least), undefined, { signal: run.signal });
    if (kind === "normal") await failAtRandom(run, context);
    else if (doneOf(run) === FAILURE_AT) await KIND_FAILURES[kind]?.(run, context);
    await run.done(item);
  }
  await record(run, context, { what: "completes" });
}

/** The number of completed items of the task. */
const doneOf = ({ state }: AgentRun): number =>
  new Set(state.execution_state.completed_items.flatMap(({ title }) => (isRequested(title) ? [title] : [])))
    .size;
const isRequested = (title: string): boolean => title.startsWith("item ");

async function recordBegin(run: AgentRun, context: WorkerContext): Promise<void> {
  const found = run.resumedFrom;
  if (found === null) return record(run, context, { what: "begins" });
  const { checkpoint_id, version } = found.metadata;
  return record(run, context, { what: "begins", from: { checkpoint_id, version, hash: hashOf(found) } });
}

function record(
  run: AgentRun,
  { agent, history }: WorkerContext,
  facts: Pick<LifecycleLine, "what" | "from" | "class">,
): Promise<void> {
  const { taskId: task, fence } = run;
  return history.append({ line: "lifecycle", at: Date.now(), agent, task, fence, ...facts });
}

async function fail(run: AgentRun, context: WorkerContext, failureClass: FailureClass): Promise<never> {
  await record(run, context, { what: "fails", class: failureClass });
  throw new WorkFailure(failureClass);
}

async function failAtRandom(run: AgentRun, context: WorkerContext): Promise<void> {
  const { random, kills } = context;
  if (isHit(kills)) await kills.killAt("worker at work");
  const dice = instant() < kills.untilUs ? random() : 1;
  if (dice < RANDOM_FAILURES.fails) {
    await fail(run, context, RANDOM_CLASSES[Math.floor(random() * RANDOM_CLASSES.length)]!);
  }
  if (dice < RANDOM_FAILURES.fails + RANDOM_FAILURES.hangs) await hang(run, context);
}

/** The worker sends heartbeats, and its step does not end. */
async function hang(run: AgentRun, context: WorkerContext): Promise<void> {
  await run.beforeLong("a step that does not end", { withinMs: STEP_MS });
  await record(run, context, { what: "hangs" });
  await Promise.race([whenAborted(run.signal), sleep(HANG_MS, undefined, { ref: false })]);
}

type KindFailure = (run: AgentRun, context: WorkerContext) => Promise<void>;

const KIND_FAILURES: Readonly<Partial<Record<TaskKind, KindFailure>>> = {
  loop: (run, context) => fail(run, context, "crash"),
  fatal: (run, context) => fail(run, context, "unrecoverable"),
  async junk(run, context) {
    const { execution_state: work } = run.state;
    for (const percent of [30, 60, 99]) {
      work.progress_percent = percent;
      work.current_focus = `almost done, ${Math.floor(context.random() * 1e6)}`;
      work.completed_items.push({ ...work.completed_items[0]!, notes: "completed again" });
      await run.checkpoint("nothing new");
    }
    await fail(run, context, "crash");
  },
  async inventive(run, context) {
    await run.done({ title: `invented ${run.fence}` });
    await fail(run, context, "crash");
  },
  corrupt: (run, context) => requestDamage(run, context, run.checkpointId),
  broken: (run, context) => requestDamage(run, context, run.resumedFrom?.metadata.checkpoint_id ?? null),
};

/** Requests damage from the first owner of the task only; later owners show the effect. */
async function requestDamage(run: AgentRun, context: WorkerContext, id: string | null): Promise<void> {
  if (id === null || run.offer === null || run.offer.recovery !== null) return;
  await record(run, context, { what: "waits" });
  context.damage(run.taskId, id);
  await sleep(DAMAGE_WAIT_MS, undefined, { signal: run.signal });
}
