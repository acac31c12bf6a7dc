/**
 * A sweep in small steps that rest while the thread is busy. One instance at a time makes them, under a lease, so
 * that instances do not repeat each other's work; the sweep itself is safe without it.
 */
import type { LedJob } from "../../../shared/records/leader/lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { WriterContext } from "../context.ts";

interface LedSweepParts {
  readonly name: string;
  /** The name of its lease in the store. */
  readonly lease: LedJob;
  readonly everyMs: number;
}

export function startLedSweep<Step extends { readonly more: boolean }>(
  { leases, clock, log }: ServiceContext & Pick<WriterContext, "leases">,
  { name, lease, everyMs }: LedSweepParts,
  make: () => Promise<Step>,
  report: (step: Step) => void,
): Stop {
  const leader = leases.of(lease);
  const throttle = createBackgroundThrottle(clock);
  const stop = startTicker({
    name,
    everyMs,
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      for (let more = true; more && !signal.aborted; ) {
        if ((await leader.hold()) === null) return;
        const step = await throttle.step(make, signal);
        report(step);
        more = step.more;
      }
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}
