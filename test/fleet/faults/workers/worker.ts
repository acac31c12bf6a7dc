/** What a worker does with a task: item after item, until it is done, or the trouble of its kind comes, or a mishap. */
import { setTimeout as sleep } from "node:timers/promises";
import { hashOf } from "../../../../shared/integrity/seal.ts";
import type { FailureClass } from "../../../../shared/protocol/exit-report.ts";
import { whenAborted } from "../../../../shared/runtime/clock.ts";
import type { AgentRun } from "../../../../shared/sdk/agent/run.ts";
import { type HistoryWriter, instant, type LifeLine } from "../agents/history.ts";
import { type Deaths, strikes } from "../environment/kill-points.ts";
import { type Kind, kindOf, TROUBLE_AT } from "./kinds.ts";

/** Why a worker gives up; it is reported so. */
export class Trouble extends Error {
  readonly class: FailureClass;

  constructor(failureClass: FailureClass) {
    super(`cannot go on: ${failureClass}`);
    this.class = failureClass;
  }
}

export interface Bench {
  readonly agent: string;
  readonly history: HistoryWriter;
  readonly random: () => number;
  readonly deaths: Deaths;
  /** Its process is killed at a moment of its choosing. */
  readonly die: (moment: string) => Promise<never>;
  /** Has a checkpoint damaged by whoever can, who then kills this process. */
  readonly damage: (task: string, checkpointId: string) => void;
}

const ITEM_MS = { least: 100, most: 500 };
const MISHAPS = { fails: 0.02, hangs: 0.012 } as const;
const MISHAP_CLASSES: readonly FailureClass[] = [
  "crash",
  "timeout",
  "out_of_memory",
  "rate_limit",
  "context_exhausted",
  "tool_error",
];
const STEP_MS = 1_000;
/** One that hangs, and that nobody deposes, goes on. */
const HANGS_MS = 20_000;
/** Whoever asked for damage and is not killed goes on. */
const WAITS_MS = 15_000;

export async function work(run: AgentRun, bench: Bench): Promise<void> {
  const { random } = bench;
  const kind = kindOf(run.taskId) ?? "sound";
  await begins(run, bench);
  for (const item of run.items()) {
    await sleep(ITEM_MS.least + random() * (ITEM_MS.most - ITEM_MS.least), undefined, { signal: run.signal });
    if (kind === "sound") await mishap(run, bench);
    else if (doneOf(run) === TROUBLE_AT) await TROUBLES[kind]?.(run, bench);
    await run.done(item);
  }
  await say(run, bench, { what: "completes" });
}

/** Items that were asked for. */
const doneOf = ({ state }: AgentRun): number =>
  new Set(state.execution_state.completed_items.flatMap(({ title }) => (isAskedFor(title) ? [title] : [])))
    .size;
const isAskedFor = (title: string): boolean => title.startsWith("item ");

async function begins(run: AgentRun, bench: Bench): Promise<void> {
  const found = run.resumedFrom;
  if (found === null) return say(run, bench, { what: "begins" });
  const { checkpoint_id, version } = found.metadata;
  return say(run, bench, { what: "begins", from: { checkpoint_id, version, hash: hashOf(found) } });
}

function say(
  run: AgentRun,
  { agent, history }: Bench,
  facts: Pick<LifeLine, "what" | "from" | "class">,
): Promise<void> {
  const { taskId: task, fence } = run;
  return history.append({ line: "life", at: Date.now(), agent, task, fence, ...facts });
}

async function fail(run: AgentRun, bench: Bench, failureClass: FailureClass): Promise<never> {
  await say(run, bench, { what: "fails", class: failureClass });
  throw new Trouble(failureClass);
}

async function mishap(run: AgentRun, bench: Bench): Promise<void> {
  const { random, deaths, die } = bench;
  if (strikes(deaths)) await die("worker at work");
  const dice = instant() < deaths.untilUs ? random() : 1;
  if (dice < MISHAPS.fails) {
    await fail(run, bench, MISHAP_CLASSES[Math.floor(random() * MISHAP_CLASSES.length)]!);
  }
  if (dice < MISHAPS.fails + MISHAPS.hangs) await hang(run, bench);
}

/** It lives, and its step does not end. */
async function hang(run: AgentRun, bench: Bench): Promise<void> {
  await run.beforeLong("a step that does not end", { withinMs: STEP_MS });
  await say(run, bench, { what: "hangs" });
  await Promise.race([whenAborted(run.signal), sleep(HANGS_MS, undefined, { ref: false })]);
}

type Troubled = (run: AgentRun, bench: Bench) => Promise<void>;

const TROUBLES: Readonly<Partial<Record<Kind, Troubled>>> = {
  loop: (run, bench) => fail(run, bench, "crash"),
  fatal: (run, bench) => fail(run, bench, "unrecoverable"),
  async junk(run, bench) {
    const { execution_state: work } = run.state;
    for (const percent of [30, 60, 99]) {
      work.progress_percent = percent;
      work.current_focus = `almost done, ${Math.floor(bench.random() * 1e6)}`;
      work.completed_items.push({ ...work.completed_items[0]!, notes: "done once more" });
      await run.checkpoint("nothing new");
    }
    await fail(run, bench, "crash");
  },
  async inventive(run, bench) {
    await run.done({ title: `invented ${run.fence}` });
    await fail(run, bench, "crash");
  },
  corrupt: (run, bench) => askForDamage(run, bench, run.checkpointId),
  broken: (run, bench) => askForDamage(run, bench, run.resumedFrom?.metadata.checkpoint_id ?? null),
};

/** Only who was the first to have the task: what it becomes after that is to be seen. */
async function askForDamage(run: AgentRun, bench: Bench, id: string | null): Promise<void> {
  if (id === null || run.offer === null || run.offer.recovery !== null) return;
  await say(run, bench, { what: "waits" });
  bench.damage(run.taskId, id);
  await sleep(WAITS_MS, undefined, { signal: run.signal });
}
