/**
 * Appends audit entries to the Merkle log of their tenant, in one watchdog at a time. The position is in the store, so
 * another watchdog continues it. Polling is enough: entries that come within one interval share a checkpoint.
 */

import { readLogDelay } from "../../../shared/records/audit-log/log-delay.ts";
import { ChainEnds } from "../../../shared/records/audit-log/log-entries.ts";
import { type AuditLogging, type LogStep, stepAuditLog } from "../../../shared/records/audit-log/log-job.ts";
import type { LeaderLease, LeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { LeaseLost, requireLease } from "../../../shared/records/leader/lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import type { Store } from "../../../shared/store/store.ts";
import { ActWalk } from "./act-walk.ts";
import { BehindLogs } from "./behind-logs.ts";
import { DamageLog } from "./damage-log.ts";

/** The time between two checkpoints of a log, unless it catches up. */
const POLL_MS = 2_000;
const READ_DEADLINE_MS = 2_000;

export interface AuditLoggerContext extends ServiceContext {
  readonly store: Store;
  readonly leases: LeaderLeases;
}

/** Stop finishes the transaction in progress and releases the lease. */
export function startAuditLogger(context: AuditLoggerContext): Stop {
  const { clock, log } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  const leader = context.leases.of("audit-log");
  const throttle = createBackgroundThrottle(clock);
  const take = createSteps(context, leader, signal);
  const working = runWorker({
    name: "audit log",
    take: () => throttle.step(take, signal),
    handle: async ({ more }) => {
      if (!more) await clock.sleep(POLL_MS, signal);
    },
    idle: { ms: POLL_MS },
    signal,
    clock,
    log,
  });
  const stopMeasuring = context.metrics.registry.measure({
    name: "audit log delay",
    run: () => measure(context),
    log,
  });
  return async () => {
    stopping.abort();
    await Promise.all([working, stopMeasuring()]);
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

/** Each call appends what follows, and makes a small part of the slow duties. */
function createSteps(context: AuditLoggerContext, leader: LeaderLease, signal: AbortSignal) {
  const { store, clock, log } = context;
  const damage = new DamageLog(context);
  const walk = new ActWalk({ clock, log });
  const behind = new BehindLogs(context, damage);
  const ends = new ChainEnds();
  /** Holds the lease before each transaction: together they may take longer than the lease lasts. */
  const duties = [
    async (logging: AuditLogging) => reported(context, damage, await stepAuditLog(logging)),
    (logging: AuditLogging, fence: number) => walk.step(logging, fence),
    (logging: AuditLogging) => behind.step(logging),
  ];
  return async (): Promise<{ more: boolean }[]> => {
    let isMore = false;
    try {
      for (const duty of duties) {
        const lease = signal.aborted ? null : await leader.hold();
        if (lease === null) return [];
        const guard: AuditLogging["guard"] = (tx) => requireLease(tx, lease);
        isMore = (await duty({ store, guard, now: () => clock.now(), ends }, lease.fence)) || isMore;
      }
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      log.debug("another watchdog has taken over the audit log");
      return [];
    }
    return isMore ? [{ more: true }] : [];
  };
}

/** Here, because a step that is done when the service stops is not handled. Returns whether another one can follow at once. */
function reported({ log, metrics }: AuditLoggerContext, damage: DamageLog, step: LogStep | null): boolean {
  if (step === null) return false;
  const { appended, tenants, unreadable, damagedRows, more } = step;
  metrics.auditLogAppendedTotal.inc(appended);
  log.debug({ appended, tenants, more }, "audit entries are in the log");
  damage.count({ unreadable, damagedRows });
  for (const [tenant, error] of step.damaged) damage.found(tenant, error);
  return more;
}

async function measure({ store, clock, metrics }: AuditLoggerContext): Promise<void> {
  const options = { label: "log_delay", deadlineMs: READ_DEADLINE_MS };
  const { entries, damaged, delayMs } = await store.read(options, (reader) =>
    readLogDelay(reader, clock.now()),
  );
  metrics.auditLogSize.set(entries);
  metrics.auditLogsDamaged.set(damaged);
  metrics.auditLogDelaySeconds.set(delayMs / 1_000);
}
