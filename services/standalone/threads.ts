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
import type { ThreadData } from "./thread.ts";
import { SAMPLE_MS, type Sizing } from "./thread-count.ts";

export interface Threads {
  /** One snapshot of each thread. */
  metrics(): Promise<MetricsSnapshot[]>;
  /** Well when it is well in every thread that works. */
  readonly checks: Readonly<Record<"store" | "bus", Check>>;
  readonly stop: Stop;
}

export interface ThreadsContext {
  readonly sizing: Sizing;
  readonly data: Omit<ThreadData, "coordinates">;
  readonly log: Logger;
  readonly clock: Clock;
}

/** Begins with one. Throws StartupError when it cannot start. */
export async function startThreads(context: ThreadsContext): Promise<Threads> {
  const { data, log } = context;
  processGate(); // before the threads: they inherit it
  const threads = [new ServiceThread({ ...data, coordinates: true }, log)];
  try {
    await threads[0]!.ready;
  } catch (error) {
    await threads[0]!.stop();
    throw error;
  }
  const stopSizing = startSizing(context, threads);
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
      await stopSizing();
      await Promise.all(threads.map((thread) => thread.stop()));
    },
  };
}

/** Those at work stand before those that rest. */
function startSizing({ sizing, data, log, clock }: ThreadsContext, threads: ServiceThread[]): Stop {
  const working = () => threads.filter(({ isServing }) => isServing);
  return startTicker({
    name: "thread sizing",
    everyMs: SAMPLE_MS,
    run: async () => {
      const before = working();
      const wanted = sizing.sample(
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

async function grow(threads: ServiceThread[], data: ThreadsContext["data"], log: Logger): Promise<void> {
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
