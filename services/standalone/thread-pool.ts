/**
 * The service threads of the standalone fleet, equal but that the first coordinates handoffs. The bus gives each request to one of them, and leases in the store give each
 * background duty to one of them, so they need to know nothing of each other, and may come and go with the load. A thread that fails
 * ends the process: what it held in memory is gone either way, and a supervisor starts the whole again.
 */
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { MetricsSnapshot } from "../../shared/runtime/observability/metrics.ts";
import type { Check, Health } from "../../shared/runtime/observability/ops-server.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";
import { processGate } from "../../shared/store/lmdb/gate.ts";
import { ServiceThread } from "./service-thread.ts";
import { SAMPLE_MS, type ThreadCount } from "./thread-count.ts";
import type { ThreadData } from "./thread-program.ts";

export interface ThreadPool {
  /** One snapshot of each thread. */
  metrics(): Promise<MetricsSnapshot[]>;
  /** Well when it is well in every thread that works. */
  readonly checks: Readonly<Record<"store" | "bus", Check>>;
  readonly stop: Stop;
}

export interface ThreadPoolContext {
  readonly threadCount: ThreadCount;
  readonly data: Omit<ThreadData, "coordinates">;
  readonly log: Logger;
  readonly clock: Clock;
}

/** Begins with one. Throws StartupError when it cannot start. */
export async function startThreadPool(context: ThreadPoolContext): Promise<ThreadPool> {
  const { data, log } = context;
  processGate(); // before the threads: they inherit it
  const threads = [new ServiceThread({ ...data, coordinates: true }, log)];
  try {
    await threads[0]!.ready;
  } catch (error) {
    await threads[0]!.stop();
    throw error;
  }
  const stopFollowing = followThreadCount(context, threads);
  const serving = () => threads.filter(({ isServing }) => isServing);
  const check = (name: "store" | "bus") => async (): Promise<Health> => {
    const answers = await Promise.all(serving().map((thread) => thread.ask("health")));
    const all = answers.map((health) => health[name] ?? { ok: false, detail: "not checked" });
    return all.find(({ ok }) => !ok) ?? all[0]!;
  };
  return {
    metrics: () => Promise.all(threads.map((thread) => thread.metrics())),
    checks: { store: check("store"), bus: check("bus") },
    async stop() {
      await stopFollowing();
      await Promise.all(threads.map((thread) => thread.stop()));
    },
  };
}

/** Those at work stand before those that rest. */
function followThreadCount(
  { threadCount, data, log, clock }: ThreadPoolContext,
  threads: ServiceThread[],
): Stop {
  const working = () => threads.filter(({ isServing }) => isServing);
  return startTicker({
    name: "thread count",
    everyMs: SAMPLE_MS,
    run: async () => {
      const before = working();
      const wanted = threadCount.sample(
        before.map((thread) => thread.utilization()),
        clock.monotonic(),
      );
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
