/**
 * Removes the blocks of the access logs that the policies of their tenants no longer keep. One instance at a time does this, under a lease that each
 * of its transactions checks.
 */

import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import type { AccessLogs } from "../../../shared/records/access-log/access-logs.ts";
import type { AccessPruneStep } from "../../../shared/records/access-log/prune.ts";
import { tenantAfter } from "../../../shared/records/kv/tenants.ts";
import { requireLease } from "../../../shared/records/leader/lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { Bytes } from "../../../shared/store/store.ts";
import type { WriterContext } from "../context.ts";

const EVERY_MS = 600_000;
const READ = { label: "tenants", deadlineMs: 2_000 } as const;

type PruningContext = ServiceContext & Pick<WriterContext, "store" | "leases">;

export function startAccessPruning(context: PruningContext, logs: AccessLogs): Stop {
  const { store, leases, clock, log } = context;
  const leader = leases.of("access-log");
  const throttle = createBackgroundThrottle(clock);
  const pruneTenant = async (tenant: string, signal: AbortSignal): Promise<boolean> => {
    let sessions: Bytes | null = null;
    for (let more = true; more && !signal.aborted; ) {
      const lease = await leader.hold();
      if (lease === null) return false;
      const after: Bytes | null = sessions;
      const step: AccessPruneStep = await throttle.step(
        () => logs.prune(tenant, (tx) => requireLease(tx, lease), after),
        signal,
      );
      report(context, tenant, step);
      ({ more, sessions } = step);
    }
    return true;
  };
  const stop = startTicker({
    name: "access log",
    everyMs: EVERY_MS,
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      for (let tenant: string | null = DEFAULT_TENANT; tenant !== null && !signal.aborted; ) {
        const at: string = tenant;
        // A damaged log of one tenant must not keep those of the others from their end.
        const isLeader = await pruneTenant(at, signal).catch((error: unknown) => {
          log.error({ error, tenant: at }, "the access log of a tenant cannot be pruned");
          return true;
        });
        if (!isLeader) return;
        tenant = await store.read(READ, (reader) => tenantAfter(reader, at));
      }
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

function report(
  { log, metrics }: PruningContext,
  tenant: string,
  { blocks, entries }: AccessPruneStep,
): void {
  if (blocks === 0) return;
  metrics.accessPrunedTotal.inc(entries);
  log.info({ tenant, blocks, entries }, "entries of the access log removed");
}
