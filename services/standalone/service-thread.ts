/** One service thread as the main thread sees it: a worker that serves, rests or stops when it is asked to. */
import { once } from "node:events";
import { type EventLoopUtilization, performance } from "node:perf_hooks";
import { Worker } from "node:worker_threads";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { MetricsSnapshot } from "../../shared/runtime/observability/metrics.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import type {
  Question,
  StartupProblem,
  ThreadAnswers,
  ThreadData,
  ThreadMessage,
  ThreadRequest,
} from "./thread-program.ts";

/**
 * Under load, every request under way is alive in each collection of young objects, and is copied; fewer collections copy less. Only
 * taken when it is needed.
 */
const YOUNG_MB = 192;

export class ServiceThread {
  /** Resolves when its services serve. Rejects with a StartupError when they cannot. */
  readonly ready: Promise<void>;
  readonly #worker: Worker;
  readonly #log: Logger;
  readonly #asked = new Map<number, (value: unknown) => void>();
  #lastId = 0;
  #state: "starting" | "running" | "stopping" = "starting";
  #isServing = false;
  #measured: EventLoopUtilization;

  constructor(data: ThreadData, log: Logger) {
    this.#log = log;
    this.#worker = new Worker(new URL("./thread-program.ts", import.meta.url), {
      name: "fleet-services",
      workerData: data,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    });
    this.#measured = this.#worker.performance.eventLoopUtilization();
    this.ready = this.#started();
  }

  get isServing(): boolean {
    return this.#isServing;
  }

  /** Share of its time since the last call that it was busy. */
  utilization(): number {
    const now = this.#worker.performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, this.#measured);
    this.#measured = now;
    return utilization;
  }

  /** A backlog that a resting thread saw is not its matter any more; what it has counted is. */
  async metrics(): Promise<MetricsSnapshot> {
    const all = await this.ask("metrics");
    return this.#isServing ? all : all.filter(({ type }) => String(type) !== "gauge");
  }

  async rest(): Promise<void> {
    this.#isServing = false;
    await this.ask("rest");
  }

  /** Throws StartupError. */
  async serve(): Promise<void> {
    const problem = await this.ask("serve");
    if (problem !== null) throw startupError(problem);
    this.utilization(); // starting kept it busy; that says nothing
    this.#isServing = true;
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
    this.#isServing = false;
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
            this.#isServing = true;
            this.utilization();
            return resolve();
          case "failed":
            return reject(startupError(message.problem));
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

function startupError({ message, hint, ...rest }: StartupProblem): StartupError {
  return new StartupError(message, { ...rest, ...(hint !== undefined && { hint }) });
}
