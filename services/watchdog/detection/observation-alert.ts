/**
 * Whether this watchdog has heard too little for too long: nobody's silence counts then, so agents that fail are noticed late or not at all,
 * and nobody would see it but in a metric. People are told, once an hour while it lasts. An outage of the bus, or a machine that slept, is
 * no such case: it is over when anybody can be told.
 */

import type { Bus } from "../../../shared/bus/bus.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf, NO_TASK } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { Attention } from "./observed-clock.ts";

const LOOK_EVERY_MS = 1_000;
const WINDOW_MS = 60_000;
/** Of a window so much must have been heard in one piece: as long as an agent may be silent by default, three times. */
const HEARD_MS_LEAST = 30_000;
/** For so long it was too little each time, while the bus was connected. */
const BLIND_MS = 60_000;
/** A longer pause between two looks was no lack of attention: the machine slept, or somebody stopped the process. */
const PAUSE_MS_MAX = 15_000;
const TELL_EVERY_MS = 3_600_000;

export interface Look {
  /** Of a monotonic clock. */
  readonly atMs: number;
  /** The attentive time, and before which of it nobody's silence counts. */
  readonly attentiveMs: number;
  readonly sinceMs: number;
  readonly isConnected: boolean;
}

/** The rule of it. */
export class Blindness {
  #looks: Look[] = [];
  #blindMs = 0;

  /** How much of the last window could count as somebody's silence, when that has been too little for too long; else null. */
  look(now: Look): number | null {
    const before = this.#looks.at(-1) ?? now;
    const passedMs = now.atMs - before.atMs;
    if (passedMs > PAUSE_MS_MAX) this.#begin();
    this.#looks.push(now);
    const first = this.#looks.findLastIndex(({ atMs }) => now.atMs - atMs >= WINDOW_MS);
    if (first === -1) return null;
    this.#looks.splice(0, first);
    const from = Math.max(this.#looks[0]?.attentiveMs ?? 0, now.sinceMs);
    const heardMs = Math.max(0, now.attentiveMs - from);
    if (heardMs >= HEARD_MS_LEAST) this.#blindMs = 0;
    else if (before.isConnected && now.isConnected) this.#blindMs += passedMs;
    return this.#blindMs >= BLIND_MS && now.isConnected ? heardMs : null;
  }

  #begin(): void {
    this.#looks = [];
    this.#blindMs = 0;
  }
}

export interface BlindnessParts extends ServiceContext {
  /** The connection over which agents are heard. */
  readonly bus: Pick<Bus, "onStatus">;
  readonly backgroundBus: Pick<Bus, "publishDurable">;
  readonly attention: Pick<Attention, "now" | "since">;
  readonly instance: string;
}

export function watchBlindness(parts: BlindnessParts): Stop {
  const { bus, attention, clock, log } = parts;
  const blindness = new Blindness();
  let toldAt = Number.NEGATIVE_INFINITY;
  let isConnected = true;
  bus.onStatus((status) => {
    isConnected = status !== "disconnected" && status !== "reconnecting";
  });
  return startTicker({
    name: "blindness",
    everyMs: LOOK_EVERY_MS,
    run: async () => {
      const atMs = clock.monotonic();
      const [attentiveMs, sinceMs] = [attention.now(), attention.since];
      const heardMs = blindness.look({ atMs, attentiveMs, sinceMs, isConnected });
      if (heardMs === null || atMs - toldAt < TELL_EVERY_MS) return;
      await tell(parts, heardMs);
      toldAt = atMs;
    },
    clock,
    log,
  });
}

async function tell(
  { backgroundBus: bus, clock, instance, metrics, log }: BlindnessParts,
  heardMs: number,
): Promise<void> {
  const nowMs = clock.now();
  const alert = alertOf("ATTENTION_LOST", "critical", {
    tenant: DEFAULT_TENANT,
    task: NO_TASK,
    // The same for the whole hour, also after a restart.
    occasion: `attention-${instance}-${Math.floor(nowMs / TELL_EVERY_MS)}`,
    nowMs,
    data: { watchdog: instance, heardMs: Math.round(heardMs), ofMs: WINDOW_MS },
  });
  await publishAlert({ bus, metrics, log }, alert);
}
