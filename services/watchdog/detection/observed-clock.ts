/**
 * The observed clock: the time in which this process could receive heartbeats. It stands still while the
 * process is frozen, while its event loop hangs, and while the bus does not answer, because a missing
 * heartbeat is not silence then. After an outage of the bus every agent has its whole silence timeout again.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { Metrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";

/** The pause between two readings. Of the time between them, at most this and the slack count. */
const TICK_MS = 250;
const SLACK_MS = 100;
/** How often the bus is asked, and how long it may take to answer before the clock stands still. */
const ASK_EVERY_MS = 1_000;
const ANSWER_MS = 500;
/** An interruption longer than this is an outage: heartbeats of that time may still be on their way. */
const OUTAGE_MS = 1_000;
const ASK_TIMEOUT_MS = 5_000;

/** The arithmetic of the observed clock, from readings of a monotonic clock. */
export class ObservedTime {
  /** The time that was not observed, in milliseconds. */
  lostMs = 0;
  #now = 0;
  #since = 0;
  #readAt: number;
  #isSuspended = false;

  constructor(monotonicMs: number) {
    this.#readAt = monotonicMs;
  }

  /** Observed milliseconds; never goes back. */
  now(monotonicMs: number): number {
    return this.#now + (this.#isSuspended ? 0 : Math.min(monotonicMs - this.#readAt, TICK_MS + SLACK_MS));
  }

  /** Silence counts from this observed time on. */
  get since(): number {
    return this.#since;
  }

  tick(monotonicMs: number): void {
    const now = this.now(monotonicMs);
    // Rounding may yield a tiny negative difference, which a counter refuses.
    this.lostMs += Math.max(0, monotonicMs - this.#readAt - (now - this.#now));
    this.#now = now;
    this.#readAt = monotonicMs;
  }

  /** No heartbeat can be received from now on. */
  suspend(monotonicMs: number): void {
    this.tick(monotonicMs);
    this.#isSuspended = true;
  }

  /**
   * Heartbeats can be received again. After an outage silence counts from now on: they may be lost or late.
   */
  resume(monotonicMs: number, { afterOutage }: { readonly afterOutage: boolean }): void {
    this.tick(monotonicMs);
    this.#isSuspended = false;
    if (afterOutage) this.#since = this.#now;
  }
}

export interface ObservedClock {
  /** Observed milliseconds; never goes back. */
  now(): number;
  /** Silence counts from this observed time on. */
  readonly since: number;
  /** Whether every message that the bus had accepted before the call has arrived here. */
  isUpToDate(): Promise<boolean>;
  readonly stop: Stop;
}

export interface ObservedClockParts {
  /** The connection over which heartbeats arrive. */
  readonly bus: Pick<Bus, "health" | "onStatus">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "watchdogAttentionMsLostTotal">;
}

export function startObservedClock({ bus, clock, log, metrics }: ObservedClockParts): ObservedClock {
  const time = new ObservedTime(clock.monotonic());
  let countedMs = 0;
  let isConnected = true;
  let suspendedAt: number | null = null;
  const suspend = (): void => {
    time.suspend(clock.monotonic());
    suspendedAt ??= clock.monotonic();
  };
  const resume = (): void => {
    if (!isConnected || suspendedAt === null) return;
    const outageMs = clock.monotonic() - suspendedAt;
    const afterOutage = outageMs > OUTAGE_MS;
    suspendedAt = null;
    time.resume(clock.monotonic(), { afterOutage });
    if (afterOutage)
      log.warn({ outage_ms: Math.round(outageMs) }, "bus outage ended; every silence timeout starts again");
  };
  bus.onStatus((status) => {
    isConnected = status !== "disconnected" && status !== "reconnecting";
    if (isConnected) resume();
    else suspend();
  });
  /** The answer arrives behind all messages that the bus sent before. */
  const ask = async (): Promise<boolean> => {
    const answered = new AbortController();
    void clock.sleep(ANSWER_MS, answered.signal).then(() => {
      if (!answered.signal.aborted) suspend();
    });
    const { ok } = await bus.health({ timeoutMs: ASK_TIMEOUT_MS });
    answered.abort();
    if (ok) resume();
    else suspend();
    return ok;
  };
  const stopTicking = startTicker({
    name: "observed clock",
    everyMs: TICK_MS,
    run: async () => {
      time.tick(clock.monotonic());
      metrics.watchdogAttentionMsLostTotal.inc(time.lostMs - countedMs);
      countedMs = time.lostMs;
    },
    clock,
    log,
  });
  const stopAsking = startTicker({
    name: "bus health",
    everyMs: ASK_EVERY_MS,
    run: async () => void (await ask()),
    clock,
    log,
  });
  return {
    now: () => time.now(clock.monotonic()),
    get since() {
      return time.since;
    },
    isUpToDate: ask,
    async stop() {
      await Promise.all([stopTicking(), stopAsking()]);
    },
  };
}
