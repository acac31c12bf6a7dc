/**
 * The availability of a round: the share of the seconds in which the fleet answered a write of an agent, by kind of fault. A second counts
 * for every kind with a fault in it, and for some seconds after the fault, in which the fleet recovers. So the kinds overlap.
 */
import type { CallAttempt } from "../agents/history.ts";

/** A fault; times are of the machine's monotonic clock in microseconds, as in the history. */
export interface FaultPeriod {
  readonly kind: string;
  readonly begin: number;
  readonly end: number;
}

export interface Availability {
  readonly seconds: number;
  /** The seconds with an answered write. */
  readonly answered: number;
  /** The longest time without an answered write, in milliseconds. */
  readonly longest_gap_ms: number;
}

/** All seconds, those without a fault, and those of each kind of fault. */
export type Availabilities = Readonly<Record<string, Availability>>;

export const ALL_SECONDS = "all seconds";
export const WITHOUT_FAULT = "without a fault";

const SECOND_US = 1_000_000;
const AFTER_US = 3 * SECOND_US;
const READS: ReadonlySet<string> = new Set(["get", "latest", "history", "task"]);

export function availabilitiesOf(
  attempts: readonly CallAttempt[],
  faults: readonly FaultPeriod[],
  { begin, end }: { readonly begin: number; readonly end: number },
): Availabilities {
  const answers = attempts
    .filter(isAnsweredWrite)
    .map((attempt) => attempt.end)
    .filter((at) => at >= begin && at < end)
    .sort((a, b) => a - b);
  const seconds = Array.from({ length: Math.floor((end - begin) / SECOND_US) }, (_, i) => ({
    begin: begin + i * SECOND_US,
    end: begin + (i + 1) * SECOND_US,
  }));
  const answered = new Set(answers.map((at) => Math.floor((at - begin) / SECOND_US)));
  const gaps = gapsBetween(answers, { begin, end });
  const over = (isCounted: (period: Period) => boolean): Availability => {
    const counted = seconds.flatMap((second, i) => (isCounted(second) ? [i] : []));
    const longest = Math.max(0, ...gaps.filter(isCounted).map((gap) => gap.end - gap.begin));
    return {
      seconds: counted.length,
      answered: counted.filter((i) => answered.has(i)).length,
      longest_gap_ms: Math.round(longest / 1_000),
    };
  };
  const during = (own: readonly FaultPeriod[]) => (period: Period) =>
    own.some((fault) => fault.begin < period.end && period.begin < fault.end + AFTER_US);
  const byKind = Map.groupBy(faults, ({ kind }) => kind);
  const all = during(faults);
  return {
    [ALL_SECONDS]: over(() => true),
    [WITHOUT_FAULT]: over((period) => !all(period)),
    ...Object.fromEntries([...byKind].map(([kind, own]) => [kind, over(during(own))])),
  };
}

interface Period {
  readonly begin: number;
  readonly end: number;
}

/** A final answer: the command is committed, queued or refused for a reason. */
function isAnsweredWrite({ op, outcome, code }: CallAttempt): boolean {
  if (READS.has(op)) return false;
  return outcome === "committed" || outcome === "queued" || (outcome === "refused" && !UNANSWERED.has(code!));
}

/** Refusals without an answer of a writer. */
const UNANSWERED: ReadonlySet<string> = new Set(["UNAVAILABLE", "never sent"]);

function gapsBetween(answers: readonly number[], { begin, end }: Period): Period[] {
  const ends = [...answers, end];
  return ends.map((at, i) => ({ begin: i === 0 ? begin : ends[i - 1]!, end: at }));
}
