// Program: a writer whose store has an outage on request. It has its own server; all other parts are those of a real fleet.

import { setTimeout as sleep } from "node:timers/promises";
import { start as startWriter } from "../../../services/writer/writer.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { openStore } from "../../../shared/store/open.ts";
import { unguardedDisk } from "../../harness/disk.ts";
import { type Outage, outageStore } from "../../harness/stores/outage-store.ts";
import { serveJobs } from "../jobs.ts";

interface Params {
  readonly url: string;
  readonly storeBytesMax: number;
  readonly storeUrl: string;
}

const DRAIN_MS_MAX = 120_000;
const BREAKER_CLOSED = 0;

const log = createLogger({ service: "bench", level: "silent" });
const metrics = createMetrics();
let outage: Outage = "none";
let depth: () => Promise<number>;

const jobs = { start, beginOutage, endOutage };
export type DegradedFleetJobs = typeof jobs;
serveJobs(jobs);

async function start({ url, storeBytesMax, storeUrl }: Params): Promise<void> {
  const connected = (name: string) => connectBus({ url, name, identity: name, log });
  const [bus, backgroundBus] = await Promise.all([connected("degraded"), connected("degraded-background")]);
  await bus.reconcileStreams(fleetStreams({ storageBytes: storeBytesMax }));
  const store = await openStore(storeUrl);
  await startWriter({
    store: outageStore(store, () => outage),
    format: await openFormat(store),
    bus,
    backgroundBus,
    instance: "degraded",
    leases: createLeaderLeases(store, "degraded", Date.now),
    disk: unguardedDisk,
    config: { agentTypes: [], policies: DEFAULT_POLICIES, finalizeDraftsAfter: null, retentionEvery: null },
    clock: systemClock,
    log,
    metrics,
  });
  depth = async () => (await bus.stream(STREAMS.queue).state()).messages;
}

/** Begins an outage; the writer notices it with the next commands. */
async function beginOutage({ kind }: { kind: "refuses" | "hangs" }): Promise<void> {
  outage = kind;
}

async function isNoticed(): Promise<boolean> {
  return (await metrics.storeBreakerState.get()).values[0]?.value !== BREAKER_CLOSED;
}

/** Ends the outage; resolves when the queue is empty. */
async function endOutage(_: object): Promise<{ queued: number; ms: number }> {
  if (!(await isNoticed())) throw new Error("the writer never noticed the outage of its store");
  const queued = await depth();
  const begin = performance.now();
  outage = "none";
  while ((await depth()) > 0) {
    if (performance.now() - begin > DRAIN_MS_MAX) throw new Error("the queue was not drained in time");
    await sleep(10);
  }
  return { queued, ms: performance.now() - begin };
}
