// What the figures are compared with. Source: the design targets, which hold for two cores that client, bus, services and
// store share. "Flat" stands there as a word; the factor that is allowed here is the benchmark's own reading of it.

export type Bound = { readonly below: number } | { readonly at_least: number };

export interface Target {
  readonly required: Bound | null;
  readonly aim: Bound | null;
}

/** null: a figure for orientation, compared with nothing. */
export type Met = "aim" | "required" | "required missed" | "not judged: quick run" | null;

export interface Row extends Target {
  readonly what: string;
  /** null: cannot be known on this machine. */
  readonly value: number | null;
  readonly unit: string;
  readonly met: Met;
}

const SUSTAINED_SHARE_OF_RAW = 0.25;

export const TARGETS = {
  /** 1,000 agents at 1 checkpoint a second each, p99, ms. */
  write: { required: { below: 100 }, aim: { below: 15 } },
  /** 1,000 checkpoints at the same instant: the last one committed, ms. */
  burst_last: { required: { below: 1_000 }, aim: { below: 250 } },
  /** Of 1,000: all. */
  burst_committed: { required: { at_least: 1_000 }, aim: null },
  /** Requests that failed, of any kind. */
  failed: { required: { below: 1 }, aim: null },
  /** p99, ms. */
  get: { required: { below: 10 }, aim: { below: 2 } },
  /** A page of 100, p99, ms. */
  history: { required: { below: 100 }, aim: { below: 15 } },
  /** Answered `queued` while the store is away, p99, ms. */
  queued: { required: { below: 100 }, aim: null },
  /** Requested to accepted with a resident agent, p99, ms. */
  handoff: { required: { below: 500 }, aim: { below: 50 } },
  /** Too long silent to offered to the next agent, 100 at once, p99, ms. */
  detection: { required: { below: 500 }, aim: { below: 100 } },
  /** 10,000 agents at a beat every two seconds, of one core, %. */
  hearing: { required: { below: 10 }, aim: null },
  /** An agent's work with checkpoints, longer than without, %. */
  overhead: { required: { below: 5 }, aim: { below: 1 } },
  /** By agent and time, p99, ms. */
  search: { required: { below: 100 }, aim: { below: 20 } },
  /** A continuation prompt from a checkpoint at hand, p50, ms. */
  prompt: { required: null, aim: { below: 2 } },
  /** The same search over ten times as many checkpoints, p50, times as long. */
  search_growth: { required: null, aim: { below: 1.5 } },
} as const satisfies Record<string, Target>;

/** Commits per second with 1,000 in flight; the aim is a share of what the raw store does in the same run. */
export function sustainedTarget(rawCommitsPerSecond: number | null): Target {
  const aim = rawCommitsPerSecond === null ? null : SUSTAINED_SHARE_OF_RAW * rawCommitsPerSecond;
  return { required: { at_least: 2_000 }, aim: aim === null ? null : { at_least: aim } };
}

export function holds(bound: Bound, value: number): boolean {
  return "below" in bound ? value < bound.below : value >= bound.at_least;
}

export function judge(value: number | null, { required, aim }: Target): Met {
  if (value === null || (required === null && aim === null)) return null;
  if (required !== null && !holds(required, value)) return "required missed";
  return aim !== null && holds(aim, value) ? "aim" : "required";
}

const NOTHING: Target = { required: null, aim: null };

export function row(what: string, value: number | null, unit: string, target: Target = NOTHING): Row {
  const { required, aim } = target;
  return { what, value, unit, required, aim, met: judge(value, target) };
}

const WORKS: ReadonlySet<Bound | null> = new Set([TARGETS.failed.required, TARGETS.burst_committed.required]);

/** A short run shows whether the fleet works, not how well: only what must never fail is judged. */
export function judgedQuickly(judged: Row): Row {
  if (judged.met === null || WORKS.has(judged.required)) return judged;
  return { ...judged, met: "not judged: quick run" };
}
