/**
 * The service threads of the standalone fleet: as many equal ones as the machine can use. The bus gives each request to one of them,
 * and leases in the store give each background duty to one of them, so they need to know nothing of each other. A thread that
 * fails ends the process: what it held in memory is gone either way, and a supervisor starts the whole again.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Logger } from "../../shared/runtime/log.ts";
import type { MetricsSnapshot } from "../../shared/runtime/metrics.ts";
import type { Check, Health } from "../../shared/runtime/ops.ts";
import { exitCodes, StartupError } from "../../shared/runtime/startup.ts";
import { processGate } from "../../shared/store/lmdb/gate.ts";
import type { Question, ThreadAnswers, ThreadData, ThreadMessage, ThreadRequest } from "./thread.ts";

/**
 * Under load, every request under way is alive in each collection of young objects, and is copied; fewer collections copy less. Only
 * taken when it is needed.
 */
const YOUNG_MB = 192;

export interface Threads {
  /** One snapshot of each thread. */
  metrics(): Promise<MetricsSnapshot[]>;
  /** Well when it is well in every thread. */
  readonly checks: Readonly<Record<"store" | "bus", Check>>;
  stop(): Promise<void>;
}

/** Throws StartupError when one of them cannot start; the others are stopped then. */
export async function startThreads(count: number, data: ThreadData, log: Logger): Promise<Threads> {
  processGate(); // before the threads: they inherit it
  const threads = Array.from({ length: count }, () => new ServiceThread(data, log));
  const askAll = <Q extends Question>(question: Q) =>
    Promise.all(threads.map((thread) => thread.ask(question)));
  const stop = async (): Promise<void> => {
    await Promise.all(threads.map((thread) => thread.stop()));
  };
  const started = await Promise.allSettled(threads.map((thread) => thread.ready));
  const failed = started.find((one) => one.status === "rejected");
  if (failed !== undefined) {
    await stop();
    throw failed.reason;
  }
  const check = (name: "store" | "bus") => async (): Promise<Health> => {
    const all = (await askAll("health")).map(
      (health) => health[name] ?? { ok: false, detail: "not checked" },
    );
    return all.find(({ ok }) => !ok) ?? all[0]!;
  };
  return { metrics: () => askAll("metrics"), checks: { store: check("store"), bus: check("bus") }, stop };
}

class ServiceThread {
  readonly ready: Promise<void>;
  readonly #worker: Worker;
  readonly #log: Logger;
  readonly #asked = new Map<number, (value: unknown) => void>();
  #lastId = 0;
  #state: "starting" | "running" | "stopping" = "starting";

  constructor(data: ThreadData, log: Logger) {
    this.#log = log;
    this.#worker = new Worker(new URL("./thread.ts", import.meta.url), {
      name: "fleet-services",
      workerData: data,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    });
    this.ready = this.#started();
  }

  ask<Q extends Question>(question: Q): Promise<ThreadAnswers[Q]> {
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      this.#asked.set(id, resolve as (value: unknown) => void);
      this.#worker.postMessage({ id, question } satisfies ThreadRequest);
    });
  }

  async stop(): Promise<void> {
    const wasRunning = this.#state === "running";
    this.#state = "stopping";
    const ended = once(this.#worker, "exit");
    if (wasRunning) await this.ask("stop");
    else await this.#worker.terminate();
    await ended;
  }

  #started(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#worker.on("message", (message: ThreadMessage) => {
        switch (message.kind) {
          case "ready":
            this.#state = "running";
            return resolve();
          case "failed": {
            const { message: text, ...rest } = message.problem;
            const { hint, ...others } = rest;
            return reject(new StartupError(text, { ...others, ...(hint !== undefined && { hint }) }));
          }
          case "defect":
            return this.#end(message.error);
          case "answer":
            this.#asked.get(message.id)?.(message.value);
            this.#asked.delete(message.id);
        }
      });
      this.#worker.on("error", (error) => this.#end(error));
      this.#worker.on("exit", (code) => {
        if (this.#state === "running")
          this.#end(new Error("a service thread ended unasked", { cause: code }));
      });
    });
  }

  #end(error: unknown): never {
    this.#log.fatal({ error }, "a service thread failed");
    process.exit(exitCodes.software);
  }
}
