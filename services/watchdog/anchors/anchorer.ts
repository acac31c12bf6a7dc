/**
 * Anchors the checkpoints of the audit logs, in one watchdog at a time for each target. Each target has its own loop and
 * lease, so a slow one delays no other, nor the log itself. What is anchored is in the store, so another watchdog continues.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  readLogSteps,
  readUnanchored,
  recordAnchor,
  type UnanchoredLog,
} from "../../../shared/records/audit-log/anchor-plan.ts";
import type { LeaderLease, LeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { LeaseLost, requireLease } from "../../../shared/records/leader/lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import { withSpan } from "../../../shared/runtime/observability/tracing.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { backoffMs } from "../../../shared/runtime/retry.ts";
import { runTicker } from "../../../shared/runtime/ticker.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import type { Store } from "../../../shared/store/store.ts";
import { AnchorFailure } from "./anchor-answer.ts";
import { anchorBucket } from "./anchor-bucket.ts";
import { anchorFolder } from "./anchor-folder.ts";
import type { AnchorSettings } from "./anchor-settings.ts";
import type { AnchorKeeper } from "./anchor-target.ts";
import { timestampAnchor } from "./timestamp-anchor.ts";

/** Short enough to keep the lease. */
const POLL_MS = 2_000;
/** The time between two looks at the logs. */
const LOOK_MS = 10_000;
/** Of one anchor. Shorter than the lease; a folder on a network disk may never answer. */
const KEEP_MS = 4_500;
const GAUGE_EVERY_MS = 5_000;
/** After failures. */
const BACKOFF = { baseMs: 2_000, maxMs: 60_000, random: () => 0.5 + Math.random() / 2 } as const;
/** One after another. Then the target is left alone for a while, because it probably fails for every tenant. */
const FAILURES_MAX = 3;

export interface AnchorerContext extends ServiceContext {
  readonly store: Store;
  readonly leases: LeaderLeases;
}

/** Stop aborts the request in progress and releases the leases. */
export function startAnchorer(context: AnchorerContext, settings: AnchorSettings): Stop {
  if (settings.timestamps?.authorities.length === 0)
    context.log.warn(
      { setting: "FLEET_AUDIT_TSA_CA" },
      "time-stamps of any authority are accepted, because no certificate of one is set",
    );
  const stops = keepersOf(context, settings).map((keeper) => startKeeper(context, keeper));
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}

function keepersOf({ clock }: AnchorerContext, settings: AnchorSettings): AnchorKeeper[] {
  const { folder, bucket, timestamps, everyMs } = settings;
  const now = () => clock.now();
  return [
    ...(folder === null ? [] : [anchorFolder(folder, now)]),
    ...(bucket === null ? [] : [anchorBucket(bucket, { everyMs, now })]),
    ...(timestamps === null ? [] : [timestampAnchor(timestamps, { everyMs, now })]),
  ];
}

function startKeeper(context: AnchorerContext, keeper: AnchorKeeper): Stop {
  const { clock, log, metrics } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  const leader = context.leases.of(`anchor-${keeper.target}`);
  const throttle = createBackgroundThrottle(clock);
  const anchoring = new Anchoring(context, keeper, leader, signal);
  metrics.auditAnchorIntervalSeconds.set({ target: keeper.target }, keeper.everyMs / 1_000);
  const working = runWorker({
    name: `anchors, ${keeper.target}`,
    take: () => throttle.step(() => anchoring.step(), signal),
    handle: async () => {},
    idle: { ms: POLL_MS },
    signal,
    clock,
    log,
  });
  const measuring = runTicker({
    name: `age of anchors, ${keeper.target}`,
    everyMs: GAUGE_EVERY_MS,
    run: async () => anchoring.measure(),
    signal,
    clock,
    log,
  });
  return async () => {
    stopping.abort();
    await Promise.all([working, measuring]);
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

/** The call itself may continue; another one for the same checkpoint does no harm. */
async function withinTime<T>(kept: Promise<T>): Promise<T> {
  const timer = new AbortController();
  const late = sleep(KEEP_MS, undefined, { signal: timer.signal, ref: false }).then(
    () => Promise.reject(new AnchorFailure("the target has not answered in time")),
    () => kept,
  );
  try {
    return await Promise.race([kept, late]);
  } finally {
    timer.abort();
    late.catch(() => {});
  }
}

class Anchoring {
  readonly #context: AnchorerContext;
  readonly #keeper: AnchorKeeper;
  readonly #leader: LeaderLease;
  readonly #signal: AbortSignal;
  /** The tenant with which the pass continues; undefined: a new one begins. */
  #next: string | undefined;
  /** The logs' steps when the last pass began that left nothing to anchor. null: something is left. */
  #doneAt: number | null = null;
  /** Of the pass in progress. */
  #stepsAtStart = 0;
  #oldestMs: number | null = null;
  /** The oldest one of the last whole pass. null: every checkpoint was anchored. */
  #waitingSinceMs: number | null = null;
  /** Tenants whose log is shorter than an anchored one. */
  readonly #cuts = new Set<string>();
  readonly #cutInPass = new Set<string>();
  /** Failures one after another. */
  #failures = 0;
  #restsUntil = 0;

  constructor(context: AnchorerContext, keeper: AnchorKeeper, leader: LeaderLease, signal: AbortSignal) {
    this.#context = context;
    this.#keeper = keeper;
    this.#leader = leader;
    this.#signal = signal;
  }

  /** Anchors the logs of one page of tenants. Returns an item if another page can follow at once. */
  async step(): Promise<unknown[]> {
    if ((await this.#leader.hold()) === null) {
      this.#forget();
      return [];
    }
    const { clock, log } = this.#context;
    if (clock.monotonic() < this.#restsUntil) return [];
    try {
      return (await this.#page()) ? ["more"] : [];
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      log.debug({ target: this.#keeper.target }, "another watchdog has taken over the anchors");
      this.#forget();
      return [];
    }
  }

  async #page(): Promise<boolean> {
    const { store, clock } = this.#context;
    if (this.#next === undefined && !(await this.#begins())) return this.#rest(LOOK_MS);
    const { logs, next } = await readUnanchored(store, this.#keeper.target, this.#next);
    this.#next = next ?? undefined;
    let failures = 0;
    for (const [i, unanchored] of logs.entries()) {
      // A tenant that fails again and again keeps none of those behind it from its turn.
      if (failures >= FAILURES_MAX || this.#signal.aborted) {
        this.#next = logs[i]?.tenant;
        break;
      }
      if (!(await this.#anchor(unanchored, clock.now()))) failures += 1;
    }
    const isEnd = this.#next === undefined;
    if (isEnd) this.#end();
    if (failures > 0) return this.#rest(Math.max(LOOK_MS, backoffMs(this.#failures, BACKOFF)));
    return isEnd ? this.#rest(LOOK_MS) : true;
  }

  #rest(ms: number): false {
    this.#restsUntil = this.#context.clock.monotonic() + ms;
    return false;
  }

  /** Another watchdog has the lease, and its figures count. */
  #forget(): void {
    this.#next = undefined;
    this.#doneAt = null;
    this.#oldestMs = null;
    this.#restsUntil = 0;
    this.#waitingSinceMs = null;
    this.#context.metrics.auditLogsCut.set({ target: this.#keeper.target }, 0);
    this.measure();
  }

  /** Whether a log has changed since all were anchored: an idle fleet costs one read. */
  async #begins(): Promise<boolean> {
    this.#stepsAtStart = await readLogSteps(this.#context.store);
    this.#oldestMs = null;
    this.#cutInPass.clear();
    return this.#doneAt !== this.#stepsAtStart;
  }

  #end(): void {
    this.#waitingSinceMs = this.#oldestMs;
    const { target } = this.#keeper;
    this.#context.metrics.auditLogsCut.set({ target }, this.#cutInPass.size);
    this.#doneAt = this.#oldestMs === null ? this.#stepsAtStart : null;
  }

  /** Ages also while an anchor hangs. */
  measure(): void {
    const { clock, metrics } = this.#context;
    const sinceMs = this.#waitingSinceMs;
    const ageMs = sinceMs === null ? 0 : Math.max(0, clock.now() - sinceMs);
    metrics.auditAnchorAgeSeconds.set({ target: this.#keeper.target }, ageMs / 1_000);
  }

  /** Returns whether it was made, or is not due yet. Throws {@link LeaseLost}. */
  async #anchor(unanchored: UnanchoredLog, nowMs: number): Promise<boolean> {
    const { beganAt, last } = unanchored;
    if (unanchored.isCut) this.#cut(unanchored);
    if (unanchored.isAnchored) return true;
    const lastMs = last === null ? null : Date.parse(last.recorded_at);
    // The time is that of this fleet. One in the future is of a watchdog whose clock was wrong.
    const ageMs = lastMs === null ? null : nowMs - lastMs;
    const isDue = ageMs === null || !(ageMs >= 0 && ageMs < this.#keeper.everyMs);
    if (isDue && (await this.#keep(unanchored))) return true;
    // From the store, so that a watchdog that starts again does not count from its start.
    const sinceMs = lastMs ?? (beganAt === null ? nowMs : Date.parse(beganAt));
    this.#oldestMs = Math.min(this.#oldestMs ?? sinceMs, sinceMs);
    return !isDue;
  }

  /** Returns whether the anchor was made. Throws {@link LeaseLost}. */
  async #keep(log: UnanchoredLog): Promise<boolean> {
    const { store } = this.#context;
    const { target } = this.#keeper;
    const { tenant, size } = log;
    const lease = await this.#leader.hold();
    if (lease === null) throw new LeaseLost(`anchor-${target}`);
    try {
      const made = await withSpan(
        "anchor",
        { "fleet.tenant": tenant, "fleet.target": target },
        () => withinTime(this.#keeper.keep(log, this.#signal)),
        { kind: "client" },
      );
      const guard: Parameters<typeof recordAnchor>[0]["guard"] = (tx) => requireLease(tx, lease);
      await recordAnchor(
        { store, guard },
        { tenant, target },
        {
          ...made,
          size,
          recorded_at: new Date(this.#context.clock.now()).toISOString(),
        },
      );
    } catch (error) {
      if (error instanceof LeaseLost) throw error;
      this.#failed(log, error);
      return false;
    }
    this.#made(log);
    return true;
  }

  /** Someone has cut the log off: a restore takes the records of anchors back too. Logged once. */
  #cut({ tenant, size }: UnanchoredLog): void {
    this.#cutInPass.add(tenant);
    if (this.#cuts.has(tenant)) return;
    this.#cuts.add(tenant);
    const { target } = this.#keeper;
    this.#context.log.error({ tenant, target, size }, "the audit log was longer when it was anchored");
  }

  #made({ tenant, size }: UnanchoredLog): void {
    const { log, metrics } = this.#context;
    const { target } = this.#keeper;
    metrics.auditAnchorsTotal.inc({ target, outcome: "made" });
    log.debug({ tenant, target, size }, "a checkpoint of the audit log is anchored");
    if (this.#failures > 0) log.info({ target }, "the audit log is anchored again");
    this.#failures = 0;
  }

  /** Each failure is counted, and the first of several is logged for people. */
  #failed({ tenant, size }: UnanchoredLog, error: unknown): void {
    const { log, metrics } = this.#context;
    const { target } = this.#keeper;
    if (this.#signal.aborted) return;
    metrics.auditAnchorsTotal.inc({ target, outcome: "failed" });
    const level = this.#failures === 0 ? "warn" : "debug";
    log[level]({ tenant, target, size, error }, "a checkpoint of the audit log could not be anchored");
    this.#failures += 1;
  }
}
