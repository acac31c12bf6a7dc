/** The sums of the results of many seeds. */

/** One line of the program of seeds. */
export interface SeedLine {
  readonly seed: number;
  readonly digest: string;
  readonly commands: number;
  readonly simulatedMs: number;
  readonly kills: number;
  readonly spooled: number;
  readonly launched: number;
  readonly requested: number;
  /** The number of faults of each kind. */
  readonly storeFaults: Readonly<Record<string, number>>;
  readonly checked: { readonly reads: number; readonly versions: number };
  readonly zombies: { readonly refused: number };
  readonly signs: boolean;
  readonly encrypts: boolean;
  readonly violations: readonly { readonly kind: string }[];
}

/** What each line adds. */
const COUNTS = {
  seeds: () => 1,
  /** Their services sign. */
  signing_seeds: ({ signs }) => Number(signs),
  /** The rows of their store are encrypted. */
  encrypted_seeds: ({ encrypts }) => Number(encrypts),
  commands: ({ commands }) => commands,
  reads: ({ checked }) => checked.reads,
  /** The stored versions of all tasks at the end. */
  versions: ({ checked }) => checked.versions,
  /** The answers that a command waits on the disk of its agent. */
  spooled_commands: ({ spooled }) => spooled,
  /** Those that a runner has started, and that have begun to work. */
  launched_agents: ({ launched }) => launched,
  simulated_ms: ({ simulatedMs }) => Math.round(simulatedMs),
  kills: ({ kills }) => kills,
  store_faults: ({ storeFaults }) => Object.values(storeFaults).reduce((sum, count) => sum + count, 0),
  refused_zombie_writes: ({ zombies }) => zombies.refused,
} satisfies Record<string, (line: SeedLine) => number>;

type Count = keyof typeof COUNTS;
const KEYS = Object.keys(COUNTS) as Count[];

export type SeedCounts = Readonly<Record<Count, number>>;

const countsOf = (count: (key: Count) => number): SeedCounts =>
  Object.fromEntries(KEYS.map((key) => [key, count(key)])) as SeedCounts;

export class SeedTotals {
  #counts = countsOf(() => 0);
  /** The first seed with a violation. */
  failing: number | null = null;
  readonly #begin = performance.now();

  get counts(): SeedCounts {
    return this.#counts;
  }

  get minutes(): number {
    return (performance.now() - this.#begin) / 60_000;
  }

  add(text: string): void {
    const line = JSON.parse(text) as SeedLine;
    const before = this.#counts;
    this.#counts = countsOf((key) => before[key] + COUNTS[key](line));
    if (line.violations.length > 0) this.failing ??= line.seed;
  }

  text(): string {
    const { seeds, commands, simulated_ms, kills, refused_zombie_writes: refused } = this.#counts;
    const rate = Math.round(commands / this.minutes);
    const simulated = Math.round(simulated_ms / 1_000);
    const faults = `${kills} kills, ${refused} refused zombie writes`;
    return `${seeds} ${seeds === 1 ? "seed" : "seeds"}, ${commands} commands (${rate} a minute), ${simulated} simulated s, ${faults}`;
  }
}
