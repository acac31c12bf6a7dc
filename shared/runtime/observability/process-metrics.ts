/** The metrics of the process and of the event loop of a thread. */
import { performance } from "node:perf_hooks";
import { collectDefaultMetrics, Gauge, type Registry } from "prom-client";

const PREFIX = "fleet_";
/**
 * The library measures the delay of the event loop with a timer that wakes the thread a hundred times a second.
 * It cannot be switched off, so the timer is slowed down and what it measures is left out.
 */
const NEVER_MS = 24 * 60 * 60_000;
const DELAYS = ["min", "max", "mean", "stddev", "p50", "p90", "p99"];

/** Measures the event loop of this thread, and with `ofProcess` the process (memory, processor time, open files). */
export function measureRuntime(registry: Registry, { ofProcess }: { readonly ofProcess: boolean }): void {
  measureEventLoop(registry);
  if (ofProcess) measureProcess(registry);
}

function measureProcess(registry: Registry): void {
  collectDefaultMetrics({ register: registry, prefix: PREFIX, eventLoopMonitoringPrecision: NEVER_MS });
  for (const one of DELAYS) registry.removeSingleMetric(`${PREFIX}nodejs_eventloop_lag_${one}_seconds`);
}

/** Of several threads, the busiest counts. */
function measureEventLoop(registry: Registry): void {
  let last = performance.eventLoopUtilization();
  new Gauge({
    name: "fleet_event_loop_utilization",
    help: "Busy share of the time of the event loop since it was last read.",
    registers: [registry],
    aggregator: "max",
    collect() {
      const now = performance.eventLoopUtilization();
      this.set(performance.eventLoopUtilization(now, last).utilization);
      last = now;
    },
  });
}
