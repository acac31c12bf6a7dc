/** The writer's breaker: open while the store is unavailable, closed again once a probe commits. */
import { LIMITS } from "../../shared/protocol/limits.ts";
import { isStoreAway } from "../../shared/records/kv/store-errors.ts";
import { Breaker, type BreakerState } from "../../shared/runtime/breaker.ts";
import type { ServiceContext } from "../../shared/runtime/process/service.ts";
import type { Store } from "../../shared/store/store.ts";

/** A single failure can be an accident. A higher limit would let more callers wait. */
const FAILURES = 3;
const PROBE_EVERY_MS = 500;
const PROBE_TIMEOUT_MS = 1_000;

const SHOWN: Readonly<Record<BreakerState, number>> = { closed: 0, half_open: 1, open: 2 };

export function storeBreaker({
  store,
  clock,
  log,
  metrics,
}: ServiceContext & { readonly store: Store }): Breaker {
  return new Breaker({
    name: "store",
    failures: FAILURES,
    isFailure: isStoreAway,
    stallMs: LIMITS.store_stall_ms,
    probe: async () => (await store.health({ timeoutMs: PROBE_TIMEOUT_MS })).ok,
    probeEveryMs: PROBE_EVERY_MS,
    onChange: (state) => metrics.storeBreakerState.set(SHOWN[state]),
    clock,
    log,
  });
}
