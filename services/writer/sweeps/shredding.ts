/**
 * Removes the content of tasks whose shredding two persons have decided: within seconds of the approval, one instance at a time, under a
 * lease that each of its transactions checks.
 */
import { type Lease, requireLease } from "../../../shared/records/leader/lease.ts";
import { type ShredStep, stepShredding } from "../../../shared/records/retention/shred/shred-sweep.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { Bytes } from "../../../shared/store/store.ts";
import type { WriterConfig } from "../config.ts";
import type { WriterContext } from "../context.ts";

const EVERY_MS = 5_000;

export interface ShreddingContext extends ServiceContext, Pick<WriterContext, "store" | "format" | "leases"> {
  readonly config: Pick<WriterConfig, "policies">;
}

export function startShredding(context: ShreddingContext): Stop {
  const { store, format, leases, clock, log, config } = context;
  const leader = leases.of("shredding");
  const throttle = createBackgroundThrottle(clock);
  const sweepUnder = (lease: Lease) => ({
    ...{ store, incarnation: format.incarnation, service: "writer", policies: config.policies },
    now: () => clock.now(),
    guard: (tx: Parameters<typeof requireLease>[0]) => requireLease(tx, lease),
  });
  const stop = startTicker({
    name: "shredding",
    everyMs: EVERY_MS,
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      for (let from: Bytes | null = null; !signal.aborted; ) {
        const lease = await leader.hold();
        if (lease === null) return;
        const at: Bytes | null = from;
        const step: ShredStep = await throttle.step(() => stepShredding(sweepUnder(lease), at), signal);
        report(context, step);
        if (step.next === null) return;
        from = step.next;
      }
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

function report({ log, metrics }: ShreddingContext, { removed, ended, kept, failed }: ShredStep): void {
  metrics.shreddedCheckpointsTotal.inc(removed);
  metrics.shreddedTasksTotal.inc(ended.length);
  for (const one of ended) log.info(one, "a task was shredded");
  for (const one of kept) log.debug(one, "a hold or a promise keeps a task from being shredded");
  for (const one of failed) log.error(one, "a task cannot be shredded");
}
