/** The main thread's handle of one service thread, which serves, rests or stops on request. */
import { type EventLoopUtilization, performance } from "node:perf_hooks";
import { Worker } from "node:worker_threads";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { MetricsSnapshot } from "../../shared/runtime/observability/metrics.ts";
import { programUrl } from "../../shared/runtime/process/installation.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import type {
  StartupProblem,
  ThreadAnswers,
  ThreadData,
  ThreadMessage,
  ThreadRequest,
  ThreadRequestKind,
} from "./thread-program.ts";

/**
 * Under load, each collection of young objects copies every request in progress, so fewer collections copy less. The memory is allocated
 * only when it is needed.
 */
const YOUNG_MB = 192;

export class ServiceThread {
  /** Resolves when its services are up. Rejects with a StartupError if they cannot start. */
  readonly ready: Promise<void>;
  readonly #worker: Worker;
  /** Listened for from the start, because a thread that cannot start may have ended before it is stopped. */
  readonly #ended: Promise<unknown>;
  readonly #log: Logger;
  readonly #pending = new Map<number, (value: unknown) => void>();
  #lastId = 0;
  #state: "starting" | "running" | "stopping" = "starting";
  #isServing = false;
  #lastUtilization: EventLoopUtilization;

  constructor(data: ThreadData, log: Logger) {
    this.#log = log;
    this.#worker = new Worker(programUrl("./thread-program.ts", import.meta.url), {
      name: "fleet-services",
      workerData: data,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    });
    this.#ended = new Promise((resolve) => this.#worker.once("exit", resolve));
    this.#lastUtilization = this.#worker.performance.eventLoopUtilization();
    this.ready = this.#started();
  }

  get isServing(): boolean {
    return this.#isServing;
  }

  /** The busy share of its time since the last call. */
  utilization(): number {
    const now = this.#worker.performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, this.#lastUtilization);
    this.#lastUtilization = now;
    return utilization;
  }

  /** A resting thread keeps its counters and drops its gauges, such as a backlog that it no longer watches. */
  async metrics(): Promise<MetricsSnapshot> {
    const all = await this.request("metrics");
    return this.#isServing ? all : all.filter(({ type }) => String(type) !== "gauge");
  }

  async rest(): Promise<void> {
    this.#isServing = false;
    await this.request("rest");
  }

  /** Throws StartupError. */
  async serve(): Promise<void> {
    const problem = await this.request("serve");
    if (problem !== null) throw startupError(problem);
    this.utilization(); // Discards the start, which kept the thread busy.
    this.#isServing = true;
  }

  request<Q extends ThreadRequestKind>(kind: Q): Promise<ThreadAnswers[Q]> {
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      this.#pending.set(id, resolve as (value: unknown) => void);
      this.#worker.postMessage({ id, kind } satisfies ThreadRequest);
    });
  }

  async stop(): Promise<void> {
    const wasRunning = this.#state === "running";
    this.#state = "stopping";
    this.#isServing = false;
    if (wasRunning) await this.request("stop");
    else await this.#worker.terminate();
    await this.#ended;
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
            this.#pending.get(message.id)?.(message.value);
            this.#pending.delete(message.id);
        }
      });
      this.#worker.on("error", (error) => this.#end(error));
      this.#worker.on("exit", (code) => {
        if (this.#state === "running")
          this.#end(new Error("a service thread ended unexpectedly", { cause: code }));
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
