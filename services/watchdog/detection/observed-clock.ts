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
import { runWorker } from "../../../shared/runtime/worker.ts";
import type { MonitoredOwners } from "./monitored-owners.ts";

/** The pause between two readings. Of the time between them, at most this and the slack count. Without owners nothing depends on it. */
const TICK_MS = { withOwners: 250, withoutOwners: 2_000 };
const SLACK_MS = 100;
/** How often the bus is asked, and how long it may take to answer before the clock stands still. */
const ASK_EVERY_MS = { withOwners: 1_000, withoutOwners: 5_000 };
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
  #pauseMs = TICK_MS.withOwners;
  #isSuspended = false;

  constructor(monotonicMs: number) {
    this.#readAt = monotonicMs;
  }

  /** Observed milliseconds; never goes back. */
  now(monotonicMs: number): number {
    return (
      this.#now + (this.#isSuspended ? 0 : Math.min(monotonicMs - this.#readAt, this.#pauseMs + SLACK_MS))
    );
  }

  /** Silence counts from this observed time on. */
  get since(): number {
    return this.#since;
  }

  /** `pauseMs`: the time until the next reading. */
  tick(monotonicMs: number, pauseMs = this.#pauseMs): void {
    const now = this.now(monotonicMs);
    // Rounding may yield a tiny negative difference, which a counter refuses.
    this.lostMs += Math.max(0, monotonicMs - this.#readAt - (now - this.#now));
    this.#now = now;
    this.#readAt = monotonicMs;
    this.#pauseMs = pauseMs;
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
  readonly owners: Pick<MonitoredOwners, "size" | "whenFirst">;
}

export function startObservedClock({ bus, clock, log, metrics, owners }: ObservedClockParts): ObservedClock {
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
  const stopping = new AbortController();
  const repeating = { owners, clock, log, signal: stopping.signal };
  const ticking = repeat(repeating, "observed clock", TICK_MS, async (pauseMs) => {
    time.tick(clock.monotonic(), pauseMs);
    metrics.watchdogAttentionMsLostTotal.inc(time.lostMs - countedMs);
    countedMs = time.lostMs;
  });
  const asking = repeat(repeating, "bus health", ASK_EVERY_MS, ask);
  return {
    now: () => time.now(clock.monotonic()),
    get since() {
      return time.since;
    },
    isUpToDate: ask,
    async stop() {
      stopping.abort();
      await Promise.all([ticking, asking]);
    },
  };
}

type Pauses = Readonly<Record<keyof typeof TICK_MS, number>>;

/** Runs at once, then after each pause, and when the first owner is monitored. `run` gets the pause that follows. */
function repeat(
  {
    owners,
    ...context
  }: Pick<ObservedClockParts, "owners" | "clock" | "log"> & { readonly signal: AbortSignal },
  name: string,
  pauses: Pauses,
  run: (pauseMs: number) => Promise<unknown>,
): Promise<void> {
  const pauseMs = (): number => pauses[owners.size === 0 ? "withoutOwners" : "withOwners"];
  return runWorker<never>({
    name,
    take: async () => {
      await run(pauseMs());
      return [];
    },
    handle: async () => {},
    idle: {
      get ms() {
        return pauseMs();
      },
      wake: owners.whenFirst(),
    },
    ...context,
  });
}
