/**
 * The deadlines of all running operations of this thread. One timer waits for the earliest of them: a timer for
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

const running = new Set<Timed>();
let timer: NodeJS.Timeout | undefined;
/** Not later than any deadline of the running operations. Infinity: no timer is set. */
let timerAt = Number.POSITIVE_INFINITY;

export function watchDeadline(operation: Timed): void {
  running.add(operation);
  if (operation.endsAt < timerAt) setTimer(operation.endsAt);
  else if (running.size === 1) timer?.ref();
}

/** The timer stays for the next operation, and does not keep the process alive meanwhile. */
export function forgetDeadline(operation: Timed): void {
  running.delete(operation);
  if (running.size === 0) timer?.unref();
}

function setTimer(at: number): void {
  clearTimeout(timer);
  timerAt = at;
  const ms = Math.min(Math.max(0, Math.ceil(at - performance.now())), TIMER_MS_MAX);
  timer = setTimeout(checkAll, ms);
}

function checkAll(): void {
  timer = undefined;
  timerAt = Number.POSITIVE_INFINITY;
  const nowMs = performance.now();
  for (const one of running) one.checkDeadline(nowMs);
  const soonest = earliest();
  if (soonest < Number.POSITIVE_INFINITY) setTimer(soonest);
}

function earliest(): number {
  let soonest = Number.POSITIVE_INFINITY;
  for (const one of running) if (!one.hasEnded) soonest = Math.min(soonest, one.endsAt);
  return soonest;
}
