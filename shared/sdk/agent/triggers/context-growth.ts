/** The growth of an agent's context from step to step, from its reports: the context is judged one step ahead. */

/** The number of steps in which the largest counts as recent. */
const STEPS = 5;

export class ContextGrowth {
  readonly #recent: number[] = [];
  #last: number | undefined;

  /** Returns the largest recent growth in tokens; undefined before the second report. A smaller context was compacted. */
  record(contextTokens: number): number | undefined {
    const grown = this.#last === undefined ? undefined : contextTokens - this.#last;
    this.#last = contextTokens;
    if (grown !== undefined && grown >= 0) this.#recent.push(grown);
    if (this.#recent.length > STEPS) this.#recent.shift();
    return this.#recent.length === 0 ? undefined : Math.max(...this.#recent);
  }
}
