/** When the agent loop writes a checkpoint: after a number of items, after a time with changes, and always on some occasions. */
import type { TriggerReason } from "../../../protocol/checkpoint.ts";
import type { Clock } from "../../../runtime/clock.ts";

/** An event in the work, or one that is about to happen. `time`: only time has passed. */
export type Occasion = "item" | "time" | "phase" | "long_operation" | "priority_message" | "error";

export interface CheckpointRules {
  /** After this number of completed items. Default 3. */
  readonly items?: number;
  /** After this number of milliseconds, if anything changed. Default ten minutes. */
  readonly everyMs?: number;
  /** Write new versions of one draft instead of new checkpoints; earlier versions stay readable. Default false. */
  readonly inPlace?: boolean;
}

const ITEMS = 3;
const EVERY_MS = 600_000;

const ALWAYS: Readonly<Partial<Record<Occasion, TriggerReason>>> = {
  phase: "phase_transition",
  long_operation: "before_long_operation",
  priority_message: "priority_message",
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

  /** Records a change that the last checkpoint does not contain. */
  changed(): void {
    this.#isChanged = true;
  }

  /** The reason of the checkpoint that is due now; null: none is due. */
  due(occasion: Occasion): TriggerReason | null {
    if (occasion === "item") this.#itemsSince += 1;
    if (occasion !== "time") this.#isChanged = true;
    const always = ALWAYS[occasion];
    if (always !== undefined) return always;
    if (this.#itemsSince >= this.#items) return "progress";
    return this.#isChanged && this.untilPeriodicMs() === 0 ? "periodic" : null;
  }

  /** Records that a checkpoint with all changes was written. */
  written(): void {
    this.#itemsSince = 0;
    this.#isChanged = false;
    this.#writtenAt = this.#clock.monotonic();
  }

  /** The milliseconds until a periodic checkpoint can be due. */
  untilPeriodicMs(): number {
    return Math.max(0, this.#writtenAt + this.#everyMs - this.#clock.monotonic());
  }
}
