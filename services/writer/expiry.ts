/**
 * Removes expired idempotency records and the acknowledgements of expired alerts. One instance at a time does
 * this, under a lease and in small steps that may be repeated. A run removes the records of at most one hour:
 * many more than arrive in that time, and few enough that a short error of the clock does no harm.
 */

import type { LeaderLeases } from "../../shared/records/leader/leader-lease.ts";
import { requireLease } from "../../shared/records/leader/lease.ts";
import { clearExpiredSessions } from "../../shared/records/session/sessions.ts";
import { clearExpiredAcks } from "../../shared/records/task/alert-acks.ts";
import { clearExpired } from "../../shared/records/task/expiry.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";
import type { Store } from "../../shared/store/store.ts";

const EVERY_MS = 5 * 60_000;
const STEP = 500;
const DEADLINE_MS = 3_000;

const CLEARINGS = [
  { what: "commands", clear: clearExpired },
  { what: "sessions", clear: clearExpiredSessions },
  { what: "alert acknowledgements", clear: clearExpiredAcks },
] as const;

export function startExpiry(
  context: ServiceContext & { readonly store: Store; readonly leases: LeaderLeases },
): Stop {
  const { store, clock, log } = context;
  const leader = context.leases.of("expiry");
  const stop = startTicker({
    name: "expiry",
    everyMs: EVERY_MS,
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      for (const { what, clear } of CLEARINGS) {
        for (let more = true; more && !signal.aborted; ) {
          const lease = await leader.hold();
          if (lease === null) return;
          const options = {
            label: "expire",
            deadlineMs: DEADLINE_MS,
            priority: "batch",
            onUnknown: "safe",
          } as const;
          const { value } = await store.transact(options, async (tx) => {
            await requireLease(tx, lease);
            return clear(tx, clock.now(), STEP);
          });
          if (value.cleared > 0) log.info({ what, cleared: value.cleared }, "records expired");
          more = value.more;
        }
      }
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}
