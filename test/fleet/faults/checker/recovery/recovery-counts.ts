/** The counts of the recoveries of a round. A recovery begins with a recorded failure and ends with the next agent's checkpoint. */
import { kindOf } from "../../workers/task-kinds.ts";
import type { Entry, Evidence } from "../evidence.ts";
import { timeOf } from "../handoff/handoff-history.ts";
import { detectableAt } from "./recovery-failures.ts";
import { isAttempt, type RecoveryHistory, recoveryHistories } from "./recovery-history.ts";

/** A distribution of times in milliseconds. */
export interface Spread {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly worst: number;
}

export interface RecoveryCounts {
  readonly tried: number;
  readonly succeeded: number;
  /** Recoveries that ended because another agent took the task, or because the task ended. */
  readonly superseded: number;
  /** Recoveries that were justifiably blocked, by reason. */
  readonly could_not: Readonly<Record<string, number>>;
  /** Recoveries with another end; the violations have the details. */
  readonly failed: number;
  readonly attempts: number;
  /** The failures by class and signal. */
  readonly failures: Readonly<Record<string, number>>;
  /** The time from the moment at which a failure was detectable to its record, by signal. */
  readonly detect_ms: Readonly<Record<string, Spread>>;
  /** The time from the record of a failure to the next agent's checkpoint. */
  readonly resume_ms: Spread;
  /** The tasks of workers, by kind and end. */
  readonly tasks: Readonly<Record<string, number>>;
}

export function countRecoveries(evidence: Evidence): RecoveryCounts {
  const histories = recoveryHistories(evidence.finalState);
  const counts = { tried: 0, succeeded: 0, superseded: 0, failed: 0, attempts: 0 };
  const [couldNot, failures, tasks]: Record<string, number>[] = [{}, {}, {}];
  const detected: [signal: string, ms: number][] = [];
  const resume: number[] = [];
  for (const history of histories) {
    for (const move of history.moves) {
      const { entry } = move;
      if (isAttempt(entry)) counts.attempts += 1;
      if (entry.op !== "fail") continue;
      add(failures!, `${entry.class} ${entry.signal}`);
      const at = detectableAt(move, history, evidence);
      if (at !== null) detected.push([entry.signal!, Math.max(0, timeOf(entry) - at)]);
    }
    for (const { begin, end } of runsOf(history)) {
      counts.tried += 1;
      if (end?.op === "resume") {
        counts.succeeded += 1;
        resume.push(timeOf(end) - timeOf(begin));
      } else if (end?.op === "settle") counts.superseded += 1;
      else if (end?.op === "block") add(couldNot!, end.reason ?? "");
      else counts.failed += 1;
    }
  }
  for (const { task, head } of evidence.finalState.tasks.values()) {
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

/** The recoveries of a task, each from its first failure to its end. */
function runsOf({ moves }: RecoveryHistory): { begin: Entry; end: Entry | null }[] {
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

/** The lower 95 % confidence bound of the success rate of possible recoveries: Wilson's bound, or 1 - 3/n without a failure. */
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
