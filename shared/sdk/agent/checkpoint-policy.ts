/** When the agent loop writes a checkpoint: after so many items, after so long with changes, and on the occasions that always ask for one. */
import type { TriggerReason } from "../../protocol/checkpoint.ts";
import type { Clock } from "../../runtime/clock.ts";

/** What happened, or is about to. `time`: nothing but time went by. */
export type Occasion = "item" | "time" | "phase" | "long_operation" | "error";

export interface CheckpointRules {
  /** After so many completed items. Default 5. */
  readonly items?: number;
  /** After so many milliseconds in which something changed. Default ten minutes. */
  readonly everyMs?: number;
}

const ITEMS = 5;
const EVERY_MS = 600_000;

const ALWAYS: Readonly<Partial<Record<Occasion, TriggerReason>>> = {
  phase: "phase_transition",
  long_operation: "before_long_operation",
  error: "error",
};

export class CheckpointPolicy {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #items: number;
  readonly #everyMs: number;
  #itemsSince = 0;
  #isChanged = false;
  #writtenAt: number;

  constructor({ items = ITEMS, everyMs = EVERY_MS }: CheckpointRules, clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
    this.#items = items;
    this.#everyMs = everyMs;
    this.#writtenAt = clock.monotonic();
  }

  /** Something changed that the last checkpoint does not hold. */
  changed(): void {
    this.#isChanged = true;
  }

  /** Why a checkpoint is due now; null: none is. */
  due(occasion: Occasion): TriggerReason | null {
    if (occasion === "item") this.#itemsSince += 1;
    if (occasion !== "time") this.#isChanged = true;
    const always = ALWAYS[occasion];
    if (always !== undefined) return always;
    if (this.#itemsSince >= this.#items) return "progress";
    return this.#isChanged && this.untilPeriodicMs() === 0 ? "periodic" : null;
  }

  /** A checkpoint that holds everything so far was written. */
  written(): void {
    this.#itemsSince = 0;
    this.#isChanged = false;
    this.#writtenAt = this.#clock.monotonic();
  }

  /** How long until time alone can make one due. */
  untilPeriodicMs(): number {
    return Math.max(0, this.#writtenAt + this.#everyMs - this.#clock.monotonic());
  }
}
