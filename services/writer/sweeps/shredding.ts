/**
 * Removes the content of tasks whose shredding two persons have decided: within seconds of the approval, one instance at a time, under a
 * lease that each of its transactions checks.
 */
import { LeaseLost, requireLease } from "../../../shared/records/leader/lease.ts";
import {
  type ShredPlace,
  type ShredStep,
  stepShredding,
} from "../../../shared/records/retention/shred/shred-sweep.ts";
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
  const known = new Set<string>();
  const sweep = {
    ...{ store, incarnation: format.incarnation, service: "writer", policies: config.policies },
    now: () => clock.now(),
    // Held before each transaction: a step has many, and may take longer than the lease lasts.
    async guard(tx: Parameters<typeof requireLease>[0]): Promise<void> {
      const lease = await leader.hold();
      if (lease === null) throw new LeaseLost("shredding");
      await requireLease(tx, lease);
    },
  };
  const stop = startTicker({
    name: "shredding",
    everyMs: EVERY_MS,
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      const round = { kept: [] as ShredPlace[], failed: 0 };
      for (let from: Bytes | null = null; !signal.aborted; ) {
        if ((await leader.hold()) === null) return;
        const at: Bytes | null = from;
        const step: ShredStep = await throttle.step(() => stepShredding(sweep, at), signal);
        report(context, step);
        round.kept.push(...step.kept);
        round.failed += step.failed.length;
        if (step.next === null) return reportRound(context, round, known);
        from = step.next;
      }
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

/** Two persons have decided what does not happen, so operators must learn of it: once for each task, and by a gauge as long as it lasts. */
function reportRound(
  { log, metrics }: ShreddingContext,
  { kept, failed }: { readonly kept: readonly ShredPlace[]; readonly failed: number },
  known: Set<string>,
): void {
  metrics.shreddingsKept.set(kept.length);
  metrics.shreddingsFailed.set(failed);
  const names = new Map(kept.map((one) => [`${one.tenant}/${one.task}`, one]));
  for (const [name, one] of names)
    if (!known.has(name)) log.warn(one, "a hold or a promise keeps a task whose shredding was approved");
  known.clear();
  for (const name of names.keys()) known.add(name);
}

function report({ log, metrics }: ShreddingContext, { removed, ended, failed }: ShredStep): void {
  metrics.shreddedCheckpointsTotal.inc(removed);
  metrics.shreddedTasksTotal.inc(ended.length);
  for (const one of ended) log.info(one, "a task was shredded");
  for (const one of failed) log.error(one, "a task cannot be shredded now; the next round tries it again");
}
