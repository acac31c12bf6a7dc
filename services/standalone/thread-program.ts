/**
 * The program of one service thread. It runs every service with its own connection to the bus and its own view of the store, and answers
 * the main thread: metrics, health, rest, serve, stop. Signals, the operations port and the end of the process belong to the main thread.
 */
import { parentPort, workerData } from "node:worker_threads";
import { systemClock } from "../../shared/runtime/clock.ts";
import { createLogger } from "../../shared/runtime/observability/log.ts";
import { createMetrics, type MetricsSnapshot } from "../../shared/runtime/observability/metrics.ts";
import type { Health } from "../../shared/runtime/observability/ops-server.ts";
import { startMemoryRelease } from "../../shared/runtime/process/memory-release.ts";
import { StartupError } from "../../shared/runtime/process/startup.ts";
import type { Platform, PlatformOptions } from "../../shared/service-host/platform.ts";
import { type ServiceRules, startServices } from "./services.ts";

export interface ThreadData {
  readonly options: Omit<PlatformOptions, "busMonitorUrls"> & {
    readonly busMonitorUrls?: string | undefined;
  };
  readonly config: ServiceRules;
  /** True if a coordinator and a watchdog are among its services. */
  readonly coordinates: boolean;
  /** True for readable log lines; a thread cannot detect a terminal. */
  readonly pretty: boolean;
}

/** `rest` stops the services and keeps the thread; `serve` starts them again. */
export type ThreadRequestKind = "metrics" | "health" | "rest" | "serve" | "stop";
export type ThreadRequest = { readonly id: number; readonly kind: ThreadRequestKind };

export type ThreadMessage =
  | { readonly kind: "ready" }
  | { readonly kind: "failed"; readonly problem: StartupProblem }
  /** An uncaught exception: the thread stops working, and the process must end. */
  | { readonly kind: "defect"; readonly error: Error }
  | { readonly kind: "answer"; readonly id: number; readonly value: unknown };

/** The fields of a StartupError. Between threads, an error object keeps only its text. */
export type StartupProblem = Pick<StartupError, "message" | "exitCode" | "details" | "hint">;

export interface ThreadAnswers {
  readonly metrics: MetricsSnapshot;
  readonly health: Readonly<Record<string, Health>>;
  readonly rest: null;
  /** null: the services are up. */
  readonly serve: StartupProblem | null;
  readonly stop: null;
}

const port = parentPort!;
const { options, config, coordinates, pretty } = workerData as ThreadData;
const post = (message: ThreadMessage): void => port.postMessage(message);

process.on("uncaughtException", (error: unknown) => {
  post({ kind: "defect", error: error instanceof Error ? error : new Error(String(error)) });
  // No further code of this thread runs after a defect; the main thread ends the process.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});

const log = createLogger({ service: "fleet", pretty });
const metrics = createMetrics({ service: "fleet", ofProcess: false });

const stopRelease = startMemoryRelease({ clock: systemClock, log });

let platform: Platform | null = null;
const problem = await serve();
if (problem === null) {
  port.on("message", ({ id, kind }: ThreadRequest) => {
    void answer(kind).then((value) => post({ kind: "answer", id, value }));
  });
  post({ kind: "ready" });
} else {
  post({ kind: "failed", problem });
}

async function serve(): Promise<StartupProblem | null> {
  try {
    const context = { log, metrics, clock: systemClock };
    platform ??= await startServices(context, options, { ...config, coordinates });
    return null;
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    const { message, exitCode, details, hint } = error;
    return { message, exitCode, details, hint };
  }
}

async function rest(): Promise<void> {
  await platform?.stop();
  platform = null;
}

async function answer(kind: ThreadRequestKind): Promise<ThreadAnswers[ThreadRequestKind]> {
  switch (kind) {
    case "metrics":
      return await metrics.registry.getMetricsAsJSON();
    case "health": {
      const checks = Object.entries(platform?.checks ?? {}).map(async ([name, check]) => [
        name,
        await check(),
      ]);
      return Object.fromEntries(await Promise.all(checks)) as ThreadAnswers["health"];
    }
    case "serve":
      return serve();
    case "rest":
      await rest();
      return null;
    case "stop":
      await Promise.all([rest(), stopRelease()]);
      port.unref();
      return null;
  }
}
