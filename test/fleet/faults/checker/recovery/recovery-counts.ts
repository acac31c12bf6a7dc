/** How the recoveries of a round went, for people. A recovery begins when a failure is noted, and ends when the next agent has written. */
import { kindOf } from "../../workers/kinds.ts";
import type { Entry, Evidence } from "../evidence.ts";
import { timeOf } from "../handoff/handoff-history.ts";
import { detectableAt } from "./recovery-failures.ts";
import { isAttempt, type RecoveryStory, recoveriesOf } from "./recovery-history.ts";

/** In milliseconds. */
export interface Spread {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly worst: number;
}

export interface RecoveryCounts {
  readonly tried: number;
  readonly succeeded: number;
  /** The task went another way meanwhile: somebody took it, or it ended. */
  readonly superseded: number;
  /** Rightly given up, by reason. */
  readonly could_not: Readonly<Record<string, number>>;
  /** Neither: the violations say more. */
  readonly failed: number;
  readonly attempts: number;
  /** By class and signal. */
  readonly failures: Readonly<Record<string, number>>;
  /** From when it could be known that an agent failed until that was noted, by signal. */
  readonly detect_ms: Readonly<Record<string, Spread>>;
  /** From then until the next agent had written. */
  readonly resume_ms: Spread;
  /** Tasks of workers, by kind and end. */
  readonly tasks: Readonly<Record<string, number>>;
}

export function countRecoveries(evidence: Evidence): RecoveryCounts {
  const stories = recoveriesOf(evidence.truth);
  const counts = { tried: 0, succeeded: 0, superseded: 0, failed: 0, attempts: 0 };
  const [couldNot, failures, tasks]: Record<string, number>[] = [{}, {}, {}];
  const detected: [signal: string, ms: number][] = [];
  const resume: number[] = [];
  for (const story of stories) {
    for (const move of story.moves) {
      const { entry } = move;
      if (isAttempt(entry)) counts.attempts += 1;
      if (entry.op !== "fail") continue;
      add(failures!, `${entry.class} ${entry.signal}`);
      const at = detectableAt(move, story, evidence);
      if (at !== null) detected.push([entry.signal!, Math.max(0, timeOf(entry) - at)]);
    }
    for (const { begin, end } of runsOf(story)) {
      counts.tried += 1;
      if (end?.op === "resume") {
        counts.succeeded += 1;
        resume.push(timeOf(end) - timeOf(begin));
      } else if (end?.op === "settle") counts.superseded += 1;
      else if (end?.op === "block") add(couldNot!, end.reason ?? "");
      else counts.failed += 1;
    }
  }
  for (const { task, head } of evidence.truth.tasks.values()) {
    const kind = kindOf(task);
    if (kind !== null) add(tasks!, `${kind} ${head.state}`);
  }
  return {
    ...counts,
    could_not: couldNot!,
    failures: failures!,
    detect_ms: Object.fromEntries(
      [...Map.groupBy(detected, ([signal]) => signal)].map(([signal, all]) => [
        signal,
        spreadOf(all.map(([, ms]) => ms)),
      ]),
    ),
    resume_ms: spreadOf(resume),
    tasks: tasks!,
  };
}

function add(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

/** From the first failure to the end, whatever comes between. */
function runsOf({ moves }: RecoveryStory): { begin: Entry; end: Entry | null }[] {
  const runs: { begin: Entry; end: Entry | null }[] = [];
  let begin: Entry | null = null;
  for (const { entry } of moves) {
    if (entry.op === "fail" || entry.op === "retry") begin ??= entry;
    const isEnd = entry.op === "resume" || entry.op === "settle" || entry.op === "block";
    if (!isEnd || begin === null) continue;
    runs.push({ begin, end: entry });
    begin = null;
  }
  return begin === null ? runs : [...runs, { begin, end: null }];
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number): number => Math.round(sorted[Math.ceil(share * sorted.length) - 1] ?? 0);
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), worst: at(1) };
}

/** With 95 % confidence, the share of those that could succeed that does is at least this: Wilson's bound; 1 - 3/n where none failed. */
export function leastShare(succeeded: number, failed: number): number {
  const n = succeeded + failed;
  if (n === 0) return 0;
  if (failed === 0) return Math.max(0, 1 - 3 / n);
  const z = 1.645;
  const share = succeeded / n;
  const middle = share + z ** 2 / (2 * n);
  const half = z * Math.sqrt((share * (1 - share)) / n + z ** 2 / (4 * n ** 2));
  return (middle - half) / (1 + z ** 2 / n);
}
