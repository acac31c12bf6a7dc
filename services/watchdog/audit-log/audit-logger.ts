/**
 * Appends audit entries to the Merkle log of their tenant, in one watchdog at a time. The position is in the store, so
 * another watchdog continues it. Polling is enough: entries that come within one interval share a checkpoint.
 */

import { readLogDelay } from "../../../shared/records/audit-log/log-delay.ts";
import {
  type AuditLogging,
  type LogStep,
  markUnloggedActs,
  stepAuditLog,
} from "../../../shared/records/audit-log/log-job.ts";
import type { LeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { type Lease, requireLease } from "../../../shared/records/leader/lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { runTicker } from "../../../shared/runtime/ticker.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import type { Store, Tx } from "../../../shared/store/store.ts";

/** The time between two checkpoints of a log, unless it catches up. */
const POLL_MS = 2_000;
const GAUGE_EVERY_MS = 5_000;
const READ_DEADLINE_MS = 2_000;

export interface AuditLoggerContext extends ServiceContext {
  readonly store: Store;
  readonly leases: LeaderLeases;
}

/** Stop finishes the step in progress and releases the lease. */
export function startAuditLogger(context: AuditLoggerContext): Stop {
  const { store, clock, log } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  const leader = context.leases.of("audit-log");
  const throttle = createBackgroundThrottle(clock);
  /** The fence under which this instance has marked the entries of earlier versions. */
  let walkedUnder: number | null = null;
  const takeStep = async (): Promise<LogStep[]> => {
    const lease = await leader.hold();
    if (lease === null) return [];
    const logging = { store, guard: guardOf(lease), now: () => clock.now() };
    if (walkedUnder !== lease.fence) {
      await walk(logging);
      walkedUnder = lease.fence;
    }
    const step = await stepAuditLog(logging);
    if (step === null) return [];
    // Here, because a step that is done when the service stops is not handled.
    report(context, step);
    return [step];
  };
  const working = runWorker({
    name: "audit log",
    take: () => throttle.step(takeStep, signal),
    handle: async (step) => {
      if (!step.more) await clock.sleep(POLL_MS, signal);
    },
    idle: { ms: POLL_MS },
    signal,
    clock,
    log,
  });
  const measuring = runTicker({
    name: "audit log delay",
    everyMs: GAUGE_EVERY_MS,
    jitter: 0.1,
    run: () => measure(context),
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

const guardOf = (lease: Lease) => (tx: Tx) => requireLease(tx, lease);

async function walk(logging: AuditLogging): Promise<void> {
  for (let next = await markUnloggedActs(logging); next !== null; )
    next = await markUnloggedActs(logging, next);
}

function report({ log, metrics }: AuditLoggerContext, step: LogStep): void {
  metrics.auditLogAppendedTotal.inc(step.appended);
  log.debug({ ...step }, "audit entries are in the log");
  if (step.unreadable > 0)
    log.error({ entries: step.unreadable }, "damaged audit entries stay out of the audit log");
}

async function measure({ store, clock, metrics }: AuditLoggerContext): Promise<void> {
  const options = { label: "log_delay", deadlineMs: READ_DEADLINE_MS };
  const { entries, delayMs } = await store.read(options, (reader) => readLogDelay(reader, clock.now()));
  metrics.auditLogSize.set(entries);
  metrics.auditLogDelaySeconds.set(delayMs / 1_000);
}
