/**
 * The service threads of the standalone fleet. They are equal, except that only the first runs the coordinator and the watchdog. The bus
 * gives each request to one of them, and leases in the store give each background job to one of them. So the threads do not depend on
 * each other, and may join and rest with the load. A failed thread ends the process; a supervisor restarts it.
 */
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { MetricsSnapshot } from "../../shared/runtime/observability/metrics.ts";
import type { Health, HealthCheck } from "../../shared/runtime/observability/ops-server.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";
import { PLATFORM_CHECKS, type PlatformCheck } from "../../shared/service-host/service-settings.ts";
import { processGate } from "../../shared/store/lmdb/gate.ts";
import { ServiceThread } from "./service-thread.ts";
import { CALM, CALM_MS, SAMPLE_MS, type ThreadCount } from "./thread-count.ts";
import type { ThreadData } from "./thread-program.ts";

export interface ThreadPool {
  /** One snapshot of each thread. */
  metrics(): Promise<MetricsSnapshot[]>;
  /** A check passes if it passes in every working thread. */
  readonly checks: Readonly<Record<PlatformCheck, HealthCheck>>;
  readonly stop: Stop;
}

export interface ThreadPoolContext {
  readonly threadCount: ThreadCount;
  readonly data: Omit<ThreadData, "coordinates">;
  readonly log: Logger;
  readonly clock: Clock;
}

/** Starts with one thread. Throws StartupError if it cannot start. */
export async function startThreadPool(context: ThreadPoolContext): Promise<ThreadPool> {
  const { data, log } = context;
  processGate(); // Created before the threads, which inherit it.
  const threads = [new ServiceThread({ ...data, coordinates: true }, log)];
  try {
    await threads[0]!.ready;
  } catch (error) {
    await threads[0]!.stop();
    throw error;
  }
  const stopAdjusting = adjustThreadCount(context, threads);
  const serving = () => threads.filter(({ isServing }) => isServing);
  const check = (name: PlatformCheck) => async (): Promise<Health> => {
    const answers = await Promise.all(serving().map((thread) => thread.request("health")));
    const all = answers.map((health) => health[name] ?? { ok: false, detail: "not checked" });
    return all.find(({ ok }) => !ok) ?? all[0]!;
  };
  return {
    metrics: () => Promise.all(threads.map((thread) => thread.metrics())),
    checks: Object.fromEntries(PLATFORM_CHECKS.map((name) => [name, check(name)])) as ThreadPool["checks"],
    async stop() {
      await stopAdjusting();
      await Promise.all(threads.map((thread) => thread.stop()));
    },
  };
}

/** Adjusts the number of working threads. In the list, working threads stand before resting ones. */
function adjustThreadCount(
  { threadCount, data, log, clock }: ThreadPoolContext,
  threads: ServiceThread[],
): Stop {
  const working = () => threads.filter(({ isServing }) => isServing);
  let isCalm = false;
  return startTicker({
    name: "thread count",
    everyMs: () => (isCalm ? CALM_MS : SAMPLE_MS),
    run: async () => {
      const before = working();
      const utilizations = before.map((thread) => thread.utilization());
      isCalm = before.length === 1 && utilizations.every((share) => share < CALM);
      const wanted = threadCount.sample(utilizations, clock.monotonic());
      if (wanted < before.length) {
        await before.at(-1)!.rest();
        log.info({ threads: wanted }, "a service thread rests");
      }
      if (wanted > before.length) {
        await grow(threads, data, log);
        log.info({ threads: wanted }, "a service thread joined");
      }
    },
    clock,
    log,
  });
}

async function grow(threads: ServiceThread[], data: ThreadPoolContext["data"], log: Logger): Promise<void> {
  const resting = threads.find(({ isServing }) => !isServing);
  if (resting !== undefined) return resting.serve();
  const thread = new ServiceThread({ ...data, coordinates: false }, log);
  try {
    await thread.ready;
  } catch (error) {
    await thread.stop();
    throw error;
  }
  threads.push(thread);
}
