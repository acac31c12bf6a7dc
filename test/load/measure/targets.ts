// The targets of the figures. Source: the design targets, which hold for two cores that client, bus, services and store share. The
// design asks for a "flat" search time; the factor for it is the benchmark's own interpretation.

export type Bound = { readonly below: number } | { readonly at_least: number };

interface Target {
  readonly required: Bound | null;
  readonly aim: Bound | null;
}

export const UNJUDGED = "not judged: quick run";

/** Null: a figure without a target. */
type Met = "aim" | "required" | "required missed" | typeof UNJUDGED | null;

export interface Row extends Target {
  readonly what: string;
  /** Null: unknown on this machine. */
  readonly value: number | null;
  readonly unit: string;
  readonly met: Met;
}

export const TARGETS = {
  /** A write with 1,000 agents at 1 checkpoint a second each, p99, ms; also while another program keeps one core busy. */
  paced_write: { required: { below: 50 }, aim: { below: 15 } },
  busy_write: { required: { below: 50 }, aim: { below: 15 } },
  /** The same beside a file mirror, or on one node of FoundationDB at half the rate. */
  write: { required: { below: 100 }, aim: { below: 15 } },
  /** The last commit of 1,000 checkpoints at the same instant, ms. */
  burst_last: { required: { below: 1_000 }, aim: { below: 250 } },
  /** Commits per second with 1,000 in flight, where the raw store was not measured in the same run. */
  commits: { required: { at_least: 2_000 }, aim: null },
  /** The same, where it was: their share of the raw store's commits, %. */
  raw_share: { required: { at_least: 25 }, aim: { at_least: 35 } },
  /** The committed ones of 1,000 checkpoints at the same instant. */
  burst_committed: { required: { at_least: 1_000 }, aim: null },
  /** Failed requests of any kind. */
  failed: { required: { below: 1 }, aim: null },
  /** A checkpoint by its id, p99, ms. */
  get: { required: { below: 10 }, aim: { below: 2 } },
  /** A history page of 100, p99, ms. */
  history: { required: { below: 100 }, aim: { below: 15 } },
  /** The answer `queued` during an outage of the store, p99, ms. */
  queued: { required: { below: 100 }, aim: null },
  /** The commands that leave the queue after an outage, /s. */
  drained: { required: { at_least: 2_000 }, aim: null },
  /** From the request of a handoff to its acceptance by a resident agent, p99, ms. */
  handoff: { required: { below: 500 }, aim: { below: 50 } },
  /** The same with 100 handoffs at once. */
  handoffs_at_once: { required: { below: 150 }, aim: { below: 50 } },
  /** From the silence timeout to the offer for the next agent, 100 failures together, p99, ms. */
  detection: { required: { below: 150 }, aim: { below: 100 } },
  /** The processor time of a watchdog for 10,000 agents with a heartbeat every two seconds, % of one core. */
  heartbeats: { required: { below: 5 }, aim: null },
  /** The fleet's commits to those of LangGraph's Postgres saver in the same run, ×. */
  postgres_saver: { required: { at_least: 2 }, aim: { at_least: 3 } },
  /** The extra time of an agent's work with checkpoints, %. */
  overhead: { required: { below: 5 }, aim: { below: 1 } },
  /** From a commit to its file in the mirror at 200 writes a second, p95, ms. Seed 002. */
  mirror_lag: { required: { below: 200 }, aim: null },
  /** Reads over HTTP beside the write load, /s. */
  http_reads: { required: { at_least: 2_000 }, aim: null },
  /** The loss of throughput through credentials and TLS, %. */
  access: { required: { below: 5 }, aim: null },
  /** The loss of throughput through signatures, %. */
  signatures: { required: { below: 25 }, aim: { below: 15 } },
  /** The loss of throughput through all measures of compliance on the way of a write, %. */
  compliance: { required: { below: 25 }, aim: null },
  /** The completed work that survives the loss of an agent's life or context, %. Seed 003 asks for 50. */
  survival: { required: { at_least: 95 }, aim: null },
  /** Items that were done twice, or by no agent. */
  done_twice: { required: { below: 1 }, aim: null },
  /** The used part of the context when an agent hands its task off, p95, %. Seed 000. */
  utilization: { required: { below: 70.01 }, aim: null },
  /** The time for which a hook holds an agent, p95, ms: with the fleet up, and while it hangs or is down. */
  hook: { required: { below: 50 }, aim: null },
  hook_outage: { required: { below: 100 }, aim: null },
  /** The checkpoint of a mission of 1,000 sorties, its resumption, and queries of it, p95, ms. Seed 002. */
  mission_checkpoint: { required: { below: 100 }, aim: null },
  mission_resume: { required: { below: 500 }, aim: null },
  mission_query: { required: { below: 50 }, aim: null },
  /** A search by agent and time, p99, ms. */
  search: { required: { below: 100 }, aim: { below: 20 } },
  /** The start of a standalone fleet with a million stored checkpoints, ms. */
  start: { required: { below: 2_000 }, aim: null },
  /** All processes of a standalone fleet without agents: resident MiB, and % of one core. */
  idle_memory: { required: { below: 250 }, aim: null },
  idle_cpu: { required: { below: 1 }, aim: null },
  /** A continuation prompt from a loaded checkpoint, p50, ms. */
  prompt: { required: null, aim: { below: 2 } },
  /** The factor of the same search over ten times as many checkpoints, p50. */
  search_growth: { required: null, aim: { below: 1.5 } },
} as const satisfies Record<string, Target>;

function holds(bound: Bound, value: number): boolean {
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

const withoutAim = ({ required }: Target): Target => ({ required, aim: null });
const unchanged = [
  ...[TARGETS.write, TARGETS.get, TARGETS.history, TARGETS.handoff, TARGETS.failed, TARGETS.burst_committed],
  ...[TARGETS.survival, TARGETS.done_twice, TARGETS.utilization],
];

/** What one node of FoundationDB must reach on the same two cores, by what LMDB must. Its load of writes is half of LMDB's. */
const ON_FOUNDATIONDB: ReadonlyMap<Bound | null, Target> = new Map<Bound | null, Target>([
  ...unchanged.map((target) => [target.required, withoutAim(target)] as const),
  [TARGETS.raw_share.required, TARGETS.raw_share],
  [TARGETS.paced_write.required, withoutAim(TARGETS.write)],
  [TARGETS.handoffs_at_once.required, withoutAim(TARGETS.handoff)],
  [TARGETS.detection.required, { required: { below: 500 }, aim: null }],
]);

/** The other targets are those of the embedded store. */
export function judgedOnFoundationdb(judged: Row): Row {
  const target = ON_FOUNDATIONDB.get(judged.required) ?? NOTHING;
  return { ...judged, ...target, met: judge(judged.value, target) };
}

const WORKS: ReadonlySet<Bound | null> = new Set([
  TARGETS.failed.required,
  TARGETS.burst_committed.required,
  TARGETS.done_twice.required,
]);

/** A quick run shows whether the fleet works, not how fast: only the targets that must hold at any speed are judged. */
export function judgedQuickly(judged: Row): Row {
  if (judged.met === null || WORKS.has(judged.required)) return judged;
  return { ...judged, met: UNJUDGED };
}
