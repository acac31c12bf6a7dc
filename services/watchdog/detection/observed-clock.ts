/**
 * Time as far as this process could hear anybody. It stands still while the process is frozen or its event loop hangs, and while the bus
 * does not answer: what was not heard then was not silence. After a pause in which the bus was away everybody has the whole time again.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { Metrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";

/** How often the time is looked at; of what passed in between at most this and the slack counts. */
const TICK_MS = 100;
const SLACK_MS = 100;
/** How often the bus is asked, and how long its answer may take while time goes on. */
const ASK_EVERY_MS = 1_000;
const ANSWER_MS = 500;
/** After a longer time without an answer it was away: what agents said meanwhile may still be on its way. */
const AWAY_MS = 1_000;
const ASK_TIMEOUT_MS = 5_000;

/** The arithmetic of it, from readings of a monotonic clock. */
export class AttentiveTime {
  /** Time in which somebody could not be heard, in milliseconds. */
  lost = 0;
  #now = 0;
  #since = 0;
  #readAt: number;
  #isBlind = false;

  constructor(monotonicMs: number) {
    this.#readAt = monotonicMs;
  }

  /** Attentive milliseconds; never goes back. */
  now(monotonicMs: number): number {
    return this.#now + (this.#isBlind ? 0 : Math.min(monotonicMs - this.#readAt, TICK_MS + SLACK_MS));
  }

  /** Before this nobody's silence counts. */
  get since(): number {
    return this.#since;
  }

  tick(monotonicMs: number): void {
    const now = this.now(monotonicMs);
    // Rounding may make a hair less than nothing of nothing, and a counter refuses that.
    this.lost += Math.max(0, monotonicMs - this.#readAt - (now - this.#now));
    this.#now = now;
    this.#readAt = monotonicMs;
  }

  /** From now on nothing can be heard. */
  blind(monotonicMs: number): void {
    this.tick(monotonicMs);
    this.#isBlind = true;
  }

  /** From now on it can again. `anew`: what was said meanwhile may be lost, or come late. */
  see(monotonicMs: number, { anew }: { readonly anew: boolean }): void {
    this.tick(monotonicMs);
    this.#isBlind = false;
    if (anew) this.#since = this.#now;
  }
}

export interface Attention {
  /** Attentive milliseconds; never goes back. */
  now(): number;
  /** Before this nobody's silence counts. */
  readonly since: number;
  /** Whether all that the bus had taken by now from whoever it was has come here. */
  isUpToDate(): Promise<boolean>;
  readonly stop: Stop;
}

export interface AttentionParts {
  /** The connection over which agents are heard. */
  readonly bus: Pick<Bus, "health" | "onStatus">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "watchdogAttentionMsLostTotal">;
}

export function startAttention({ bus, clock, log, metrics }: AttentionParts): Attention {
  const time = new AttentiveTime(clock.monotonic());
  let told = 0;
  let isConnected = true;
  let blindSince: number | null = null;
  const blind = (): void => {
    time.blind(clock.monotonic());
    blindSince ??= clock.monotonic();
  };
  const see = (): void => {
    if (!isConnected || blindSince === null) return;
    const awayMs = clock.monotonic() - blindSince;
    const anew = awayMs > AWAY_MS;
    blindSince = null;
    time.see(clock.monotonic(), { anew });
    if (anew)
      log.warn({ away_ms: Math.round(awayMs) }, "the bus was away; every agent has its whole time again");
  };
  bus.onStatus((status) => {
    isConnected = status !== "disconnected" && status !== "reconnecting";
    if (isConnected) see();
    else blind();
  });
  /** The answer comes behind all that the bus sent here before. */
  const ask = async (): Promise<boolean> => {
    const answered = new AbortController();
    void clock.sleep(ANSWER_MS, answered.signal).then(() => {
      if (!answered.signal.aborted) blind();
    });
    const { ok } = await bus.health({ timeoutMs: ASK_TIMEOUT_MS });
    answered.abort();
    if (ok) see();
    else blind();
    return ok;
  };
  const stopTicking = startTicker({
    name: "attention",
    everyMs: TICK_MS,
    run: async () => {
      time.tick(clock.monotonic());
      metrics.watchdogAttentionMsLostTotal.inc(time.lost - told);
      told = time.lost;
    },
    clock,
    log,
  });
  const stopAsking = startTicker({
    name: "bus question",
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
