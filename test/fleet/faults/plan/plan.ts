/**
 * The plan of a round: the targets, times and durations of its faults. The seed alone determines the plan, but not the behaviour of the
 * processes. Every possible kind occurs once before any kind occurs again.
 */
import { seededRandom } from "../../../load/workload.ts";

export const FAULT_KINDS = [
  "kill_service",
  "pause_service",
  "kill_agents",
  "pause_agents",
  "kill_nats",
  "pause_nats",
  "kill_bus_leader",
  "pause_bus_leader",
  "kill_bus_server",
  "pause_bus_server",
  "cut_connections",
  "refuse_connections",
  "delay_bytes",
  "trickle_bytes",
  "half_open",
  "store_unavailable",
  "store_hangs",
  "commit_unknown",
  "disk_full",
  "kill_fdbserver",
  "pause_fdbserver",
  "kill_fdb_zone",
  "pause_fdb_zone",
] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export interface Fault {
  readonly atMs: number;
  readonly kind: FaultKind;
  /** The name of the process, also for the faults of its connection. */
  readonly target: string;
  readonly lastsMs: number;
  /** A number from 0 to 1 that determines the other choices, such as a direction or a share. */
  readonly chance: number;
}

/** The shortest and the longest duration in ms, some of them longer than a request's deadline or a lease. */
const DURATIONS: Readonly<Record<FaultKind, readonly [number, number]>> = {
  kill_service: [50, 1_500],
  pause_service: [300, 7_000],
  kill_agents: [50, 1_000],
  pause_agents: [500, 6_000],
  kill_nats: [50, 3_000],
  pause_nats: [300, 4_000],
  // A cluster works without one of its servers or zones, so they may be down longer.
  kill_bus_leader: [300, 8_000],
  pause_bus_leader: [1_000, 15_000],
  kill_bus_server: [300, 8_000],
  pause_bus_server: [1_000, 15_000],
  cut_connections: [0, 0],
  refuse_connections: [500, 3_000],
  delay_bytes: [1_000, 4_000],
  trickle_bytes: [1_000, 3_000],
  half_open: [500, 5_000],
  store_unavailable: [500, 5_000],
  store_hangs: [500, 4_000],
  commit_unknown: [2_000, 6_000],
  disk_full: [500, 3_000],
  kill_fdbserver: [50, 2_000],
  pause_fdbserver: [300, 5_000],
  kill_fdb_zone: [300, 8_000],
  pause_fdb_zone: [1_000, 15_000],
};

export interface Planning {
  readonly seed: number;
  readonly durationMs: number;
  /** The possible targets by kind; a kind without targets does not occur. */
  readonly targets: Readonly<Partial<Record<FaultKind, readonly string[]>>>;
  /** The mean time between the beginnings of two faults. Default: 1,200. */
  readonly everyMs?: number;
}

const QUIET_AT_START_MS = 1_000;

export function planFaults({ seed, durationMs, targets, everyMs = 1_200 }: Planning): Fault[] {
  const random = seededRandom(seed);
  const kinds = FAULT_KINDS.filter((kind) => (targets[kind]?.length ?? 0) > 0);
  if (kinds.length === 0) return [];
  const faults: Fault[] = [];
  let round: FaultKind[] = [];
  // In a short round faults begin faster, so that each kind occurs once.
  const pace = Math.min(everyMs, (0.8 * (durationMs - QUIET_AT_START_MS)) / kinds.length);
  for (let atMs = QUIET_AT_START_MS; ; ) {
    atMs += pace * (0.4 + 1.2 * random());
    if (atMs >= durationMs) return faults;
    if (round.length === 0) round = shuffled(kinds, random);
    const kind = round.pop()!;
    const among = targets[kind]!;
    const [shortest, longest] = DURATIONS[kind];
    faults.push({
      atMs: Math.round(atMs),
      kind,
      target: among[Math.floor(random() * among.length)]!,
      // Squared, so that most faults are short and some are long.
      lastsMs: Math.round(Math.min(shortest + random() ** 2 * (longest - shortest), durationMs - atMs)),
      chance: random(),
    });
  }
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const left = [...items];
  for (let i = left.length - 1; i > 0; i -= 1) {
    const j = Math.floor(random() * (i + 1));
    [left[i], left[j]] = [left[j]!, left[i]!];
  }
  return left;
}
