/** The sums of the results of many seeds. */

/** One line of the program of seeds. */
export interface SeedLine {
  readonly seed: number;
  readonly digest: string;
  readonly commands: number;
  readonly simulatedMs: number;
  readonly kills: number;
  readonly zombies: { readonly refused: number };
  readonly violations: readonly { readonly kind: string }[];
}

export class SeedTotals {
  #seeds = 0;
  #commands = 0;
  #simulatedMs = 0;
  #kills = 0;
  #refused = 0;
  /** The first seed with a violation. */
  failing: number | null = null;
  readonly #begin = performance.now();

  add(line: string): void {
    const { seed, commands, simulatedMs, kills, zombies, violations } = JSON.parse(line) as SeedLine;
    this.#seeds += 1;
    this.#commands += commands;
    this.#simulatedMs += simulatedMs;
    this.#kills += kills;
    this.#refused += zombies.refused;
    if (violations.length > 0) this.failing ??= seed;
  }

  text(): string {
    const minutes = (performance.now() - this.#begin) / 60_000;
    const rate = Math.round(this.#commands / minutes);
    const simulated = Math.round(this.#simulatedMs / 1_000);
    const faults = `${this.#kills} kills, ${this.#refused} refused zombie writes`;
    return `${this.#seeds} ${this.#seeds === 1 ? "seed" : "seeds"}, ${this.#commands} commands (${rate} a minute), ${simulated} simulated s, ${faults}`;
  }
}
