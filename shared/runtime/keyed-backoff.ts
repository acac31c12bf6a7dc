/** Who failed lately, each kept back for a while, longer from failure to failure, so that nobody else has to wait for it. In memory. */
import type { Clock } from "./clock.ts";
import { backoffMs } from "./retry.ts";

const PAUSE = { baseMs: 500, maxMs: 30_000, random: () => 0.5 + Math.random() / 2 };
/** At most so many; forgetting one costs a try too early. */
const REMEMBERED_MAX = 10_000;

export class KeepingBack {
  readonly #clock: Pick<Clock, "now">;
  readonly #failed = new Map<string, { readonly times: number; readonly untilMs: number }>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  has(name: string): boolean {
    const one = this.#failed.get(name);
    return one !== undefined && this.#clock.now() < one.untilMs;
  }

  /** It failed once more; how often by now, in a row. */
  failed(name: string): number {
    const times = (this.#failed.get(name)?.times ?? 0) + 1;
    if (this.#failed.size >= REMEMBERED_MAX) this.#failed.clear();
    this.#failed.set(name, { times, untilMs: this.#clock.now() + backoffMs(times, PAUSE) });
    return times;
  }

  succeeded(name: string): void {
    this.#failed.delete(name);
  }
}
