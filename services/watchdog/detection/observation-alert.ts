/**
 * The alert of a watchdog that could not observe heartbeats for too long. Silence does not count then, so
 * failures are detected late or not at all, and only a metric would show it. Operators are alerted once an
 * hour while it lasts. An outage of the bus and a suspended machine are not reported: they have ended when an
 * alert can be published.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { MonitoredOwners } from "./monitored-owners.ts";
import type { ObservedClock } from "./observed-clock.ts";

const READ_EVERY_MS = { withOwners: 1_000, withoutOwners: 5_000 };
const WINDOW_MS = 60_000;
/** Minimum uninterrupted observation per window: three times the default silence timeout. */
const OBSERVED_MS_MIN = 30_000;
/** How long observation is below the minimum, with the bus connected, before operators are alerted. */
const GRACE_MS = 60_000;
/** After a longer pause between two readings the machine was suspended, or the process stopped. */
const PAUSE_MS_MAX = 15_000;
const ALERT_EVERY_MS = 3_600_000;
/** The alert concerns no task. */
const NO_TASK = "unknown";

export interface ObservationReading {
  /** The time of a monotonic clock. */
  readonly atMs: number;
  readonly observedMs: number;
  /** Silence counts from this observed time on. */
  readonly sinceMs: number;
  readonly isConnected: boolean;
}

/** Decides from readings whether the watchdog observes too little. */
export class ObservationWindow {
  #readings: ObservationReading[] = [];
  #insufficientMs = 0;

  /**
   * How much of the last window could count as silence, if that has been too little for too long; else null.
   */
  read(now: ObservationReading): number | null {
    const before = this.#readings.at(-1) ?? now;
    const passedMs = now.atMs - before.atMs;
    if (passedMs > PAUSE_MS_MAX) this.#restart();
    this.#readings.push(now);
    const first = this.#readings.findLastIndex(({ atMs }) => now.atMs - atMs >= WINDOW_MS);
    if (first === -1) return null;
    this.#readings.splice(0, first);
    const from = Math.max(this.#readings[0]?.observedMs ?? 0, now.sinceMs);
    const observedMs = Math.max(0, now.observedMs - from);
    if (observedMs >= OBSERVED_MS_MIN) this.#insufficientMs = 0;
    else if (before.isConnected && now.isConnected) this.#insufficientMs += passedMs;
    return this.#insufficientMs >= GRACE_MS && now.isConnected ? observedMs : null;
  }

  #restart(): void {
    this.#readings = [];
    this.#insufficientMs = 0;
  }
}

export interface ObservationAlertParts extends ServiceContext {
  /** The connection over which heartbeats arrive. */
  readonly bus: Pick<Bus, "onStatus">;
  readonly backgroundBus: Pick<Bus, "publishDurable">;
  readonly observedClock: Pick<ObservedClock, "now" | "since">;
  readonly owners: Pick<MonitoredOwners, "size">;
  readonly instance: string;
}

export function startObservationAlert(parts: ObservationAlertParts): Stop {
  const { bus, observedClock, owners, clock, log } = parts;
  const window = new ObservationWindow();
  let alertedAt = Number.NEGATIVE_INFINITY;
  let isConnected = true;
  bus.onStatus((status) => {
    isConnected = status !== "disconnected" && status !== "reconnecting";
  });
  return startTicker({
    name: "observation alert",
    everyMs: () => (owners.size === 0 ? READ_EVERY_MS.withoutOwners : READ_EVERY_MS.withOwners),
    run: async () => {
      const atMs = clock.monotonic();
      const [nowMs, sinceMs] = [observedClock.now(), observedClock.since];
      const observedMs = window.read({ atMs, observedMs: nowMs, sinceMs, isConnected });
      if (observedMs === null || atMs - alertedAt < ALERT_EVERY_MS) return;
      await alert(parts, observedMs);
      alertedAt = atMs;
    },
    clock,
    log,
  });
}

async function alert(
  { backgroundBus: bus, clock, instance, metrics, log }: ObservationAlertParts,
  observedMs: number,
): Promise<void> {
  const nowMs = clock.now();
  const lost = alertOf("ATTENTION_LOST", "critical", {
    tenant: DEFAULT_TENANT,
    task: NO_TASK,
    // One alert an hour, also after a restart.
    occasion: `attention-${instance}-${Math.floor(nowMs / ALERT_EVERY_MS)}`,
    nowMs,
    data: { watchdog: instance, heardMs: Math.round(observedMs), ofMs: WINDOW_MS },
  });
  await publishAlert({ bus, metrics, log }, lost);
}
