/**
 * The deadlines of all running operations of a store. One timer waits for the earliest of them: a timer for
 * each would cost more than the read of a key, and a timer that looks at intervals would wake an idle thread.
 */
import { TIMER_MS_MAX } from "../runtime/clock.ts";

export interface Timed {
  /** On the clock of `performance.now()`. */
  readonly endsAt: number;
  /** True for one that has ended and waits for its result. */
  readonly hasEnded: boolean;
  /** Ends it when its deadline has passed. */
  checkDeadline(nowMs: number): void;
}

export class Deadlines {
  readonly #running = new Set<Timed>();
  #timer: NodeJS.Timeout | undefined;
  /** Not later than any deadline of the running operations. Infinity: no timer is set. */
  #timerAt = Number.POSITIVE_INFINITY;

  watch(operation: Timed): void {
    this.#running.add(operation);
    if (operation.endsAt < this.#timerAt) this.#setTimer(operation.endsAt);
    else if (this.#running.size === 1) this.#timer?.ref();
  }

  /** The timer stays for the next operation, and does not keep the process alive meanwhile. */
  forget(operation: Timed): void {
    this.#running.delete(operation);
    if (this.#running.size === 0) this.#timer?.unref();
  }

  #setTimer(at: number): void {
    clearTimeout(this.#timer);
    this.#timerAt = at;
    const ms = Math.min(Math.max(0, Math.ceil(at - performance.now())), TIMER_MS_MAX);
    this.#timer = setTimeout(() => this.#checkAll(), ms);
  }

  #checkAll(): void {
    this.#timer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
    const nowMs = performance.now();
    for (const one of this.#running) one.checkDeadline(nowMs);
    const soonest = this.#earliest();
    if (soonest < Number.POSITIVE_INFINITY) this.#setTimer(soonest);
  }

  #earliest(): number {
    let soonest = Number.POSITIVE_INFINITY;
    for (const one of this.#running) if (!one.hasEnded) soonest = Math.min(soonest, one.endsAt);
    return soonest;
  }
}
