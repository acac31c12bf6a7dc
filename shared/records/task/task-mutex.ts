/**
 * Lanes: the commands of one task, one behind another, in the order in which they came. Each reads and writes the task's head, so of
 * many at once only one could commit, and the others would have worked for nothing and tried again, some of them until their time
 * was over. A lane spares that work and is fair. It is an optimisation for one process: several processes' lanes still meet in the
 * store, whose transactions alone decide what is right. Tasks do not share lanes, so none waits for another.
 */
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";

/** A lane in which somebody is at work. */
interface Lane {
  /** Those who wait, in their order. */
  readonly waiting: Set<() => void>;
  /** How many have done their work in it. */
  left: number;
}

export class Lanes {
  readonly #lanes = new Map<string, Lane>();

  /**
   * Does the work when nobody is before it, and tells it how long it waited. After `waitMs` in the lane it throws, the work not
   * begun: UNAVAILABLE, and says whether too many were before it or the store answered none of them.
   */
  async run<T>(name: string, waitMs: number, work: (waitedMs: number) => Promise<T>): Promise<T> {
    const lane = this.#lanes.get(name);
    let waited = 0;
    if (lane === undefined) this.#lanes.set(name, { waiting: new Set(), left: 0 });
    else {
      const begin = performance.now();
      await turn(lane, waitMs);
      waited = performance.now() - begin;
    }
    try {
      return await work(waited);
    } finally {
      this.#leave(name);
    }
  }

  /** The lane passes to the next one without being free in between: whoever comes just now comes behind. */
  #leave(name: string): void {
    const lane = this.#lanes.get(name);
    const next = lane?.waiting.values().next().value;
    if (lane === undefined || next === undefined) {
      this.#lanes.delete(name);
      return;
    }
    lane.left += 1;
    lane.waiting.delete(next);
    next();
  }
}

function turn(lane: Lane, waitMs: number): Promise<void> {
  const { left } = lane;
  return new Promise((resolve, reject) => {
    const admit = (): void => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      lane.waiting.delete(admit);
      reject(lane.left === left ? stuck() : busy(lane.waiting.size));
    }, waitMs);
    lane.waiting.add(admit);
  });
}

function stuck(): FleetError {
  return new FleetError("UNAVAILABLE", "the store did not answer the earlier commands on this task in time");
}

function busy(waiting: number): FleetError {
  return new FleetError("UNAVAILABLE", "too many commands on this task at once", {
    details: { waiting },
    retryAfterMs: LIMITS.overload_retry_ms,
  });
}
