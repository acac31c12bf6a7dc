/**
 * The plan of a round: which fault strikes whom, when and for how long. It follows from the seed alone, so the same seed gives the
 * same plan; what the processes do meanwhile is theirs. Every possible kind comes once before any comes twice.
 */
import { seededRandom } from "../../../load/workload.ts";

export const FAULT_KINDS = [
  "kill_service",
  "pause_service",
  "kill_agents",
  "pause_agents",
  "kill_nats",
  "pause_nats",
  "cut_connections",
  "refuse_connections",
  "delay_bytes",
  "trickle_bytes",
  "half_open",
  "store_away",
  "store_hangs",
  "commit_unknown",
  "disk_full",
  "kill_fdbserver",
  "pause_fdbserver",
] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export interface Fault {
  readonly atMs: number;
  readonly kind: FaultKind;
  /** Name of the process that it strikes; of its connection for the faults of the network. */
  readonly target: string;
  readonly lastsMs: number;
  /** From 0 to 1: what else has to be chosen, such as a direction or a share, follows from it. */
  readonly chance: number;
}

/** Shortest and longest in ms: from a blip to longer than a request's deadline or a lease. */
const LASTS: Readonly<Record<FaultKind, readonly [number, number]>> = {
  kill_service: [50, 1_500],
  pause_service: [300, 7_000],
  kill_agents: [50, 1_000],
  pause_agents: [500, 6_000],
  kill_nats: [50, 3_000],
  pause_nats: [300, 4_000],
  cut_connections: [0, 0],
  refuse_connections: [500, 3_000],
  delay_bytes: [1_000, 4_000],
  trickle_bytes: [1_000, 3_000],
  half_open: [500, 5_000],
  store_away: [500, 5_000],
  store_hangs: [500, 4_000],
  commit_unknown: [2_000, 6_000],
  disk_full: [500, 3_000],
  kill_fdbserver: [50, 2_000],
  pause_fdbserver: [300, 5_000],
};

export interface Planning {
  readonly seed: number;
  readonly durationMs: number;
  /** What can be struck, by kind; a kind without targets does not occur. */
  readonly targets: Readonly<Partial<Record<FaultKind, readonly string[]>>>;
  /** Mean time between the beginnings of two faults. Default 1,200. */
  readonly everyMs?: number;
}

const QUIET_AT_START_MS = 1_000;

export function planFaults({ seed, durationMs, targets, everyMs = 1_200 }: Planning): Fault[] {
  const random = seededRandom(seed);
  const kinds = FAULT_KINDS.filter((kind) => (targets[kind]?.length ?? 0) > 0);
  if (kinds.length === 0) return [];
  const faults: Fault[] = [];
  let round: FaultKind[] = [];
  // With few seconds for many kinds, they come faster: each kind is to be met once.
  const pace = Math.min(everyMs, (0.8 * (durationMs - QUIET_AT_START_MS)) / kinds.length);
  for (let atMs = QUIET_AT_START_MS; ; ) {
    atMs += pace * (0.4 + 1.2 * random());
    if (atMs >= durationMs) return faults;
    if (round.length === 0) round = shuffled(kinds, random);
    const kind = round.pop()!;
    const among = targets[kind]!;
    const [shortest, longest] = LASTS[kind];
    faults.push({
      atMs: Math.round(atMs),
      kind,
      target: among[Math.floor(random() * among.length)]!,
      // Squared: mostly short, sometimes long.
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
