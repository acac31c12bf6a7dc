/** The events of one simulation in the order of their times, and of their entry at equal times. */
import { AsyncResource } from "node:async_hooks";
import { currentProcess, type SimulatedProcess } from "./processes.ts";

/** The monotonic time at the begin, so that no code takes it for an absent value. */
const MONOTONIC_BEGIN_MS = 1_000;
const WALL_BEGIN_MS = Date.UTC(2030, 0, 1);

/** An event of the process that entered it, within its asynchronous context. */
export class ScheduledEvent extends AsyncResource {
  readonly due: number;
  readonly order: number;
  readonly process: SimulatedProcess | undefined;
  isCancelled = false;
  readonly #callback: () => void;

  constructor(due: number, order: number, callback: () => void) {
    super("ScheduledEvent");
    this.due = due;
    this.order = order;
    this.process = currentProcess();
    this.#callback = callback;
  }

  fire(): void {
    this.runInAsyncScope(this.#callback);
  }
}

export class Schedule {
  #now = MONOTONIC_BEGIN_MS;
  #entered = 0;
  /** A binary heap; the earliest event comes first. */
  readonly #heap: ScheduledEvent[] = [];
  #fired = 0;
  #instant = 0;

  /** Monotonic milliseconds. */
  get now(): number {
    return this.#now;
  }

  /** Milliseconds since 1970. */
  get wall(): number {
    return Math.floor(WALL_BEGIN_MS + this.#now - MONOTONIC_BEGIN_MS);
  }

  /** The simulated time so far, in milliseconds. */
  get elapsed(): number {
    return this.#now - MONOTONIC_BEGIN_MS;
  }

  get fired(): number {
    return this.#fired;
  }

  /** The microseconds of the monotonic time, a different number at each call: what happens within one event has an order too. */
  instantUs(): number {
    this.#instant = Math.max(this.#instant + 1, Math.floor(this.#now * 1_000));
    return this.#instant;
  }

  enter(afterMs: number, callback: () => void): ScheduledEvent {
    const event = new ScheduledEvent(this.#now + afterMs, this.#entered++, callback);
    this.#push(event);
    return event;
  }

  /** Takes the next event of a living process and moves the time to it. undefined: nothing is left to happen. */
  next(): ScheduledEvent | undefined {
    for (let event = this.#pop(); event !== undefined; event = this.#pop()) {
      if (!isPending(event)) continue;
      this.#now = Math.max(this.#now, event.due);
      this.#fired += 1;
      return event;
    }
    return undefined;
  }

  /** The events that come next, the earliest first. */
  pending(max: number): ScheduledEvent[] {
    const all = this.#heap.filter(isPending);
    return all.sort((a, b) => (isBefore(a, b) ? -1 : 1)).slice(0, max);
  }

  #push(event: ScheduledEvent): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(event);
    while (at > 0) {
      const parent = (at - 1) >>> 1;
      if (!isBefore(event, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): ScheduledEvent | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (!isBefore(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

const isPending = ({ isCancelled, process }: ScheduledEvent): boolean =>
  !isCancelled && process?.isAlive !== false;

const isBefore = (a: ScheduledEvent, b: ScheduledEvent): boolean =>
  a.due < b.due || (a.due === b.due && a.order < b.order);
