// The lifecycle of a process, and the only place where signals are handled. It opens nothing itself:
// settings, stores and buses belong to `start`. The first signal stops the process gracefully within a
// deadline, a second one at once. A start-up problem is one clear line. A defect is logged with its stack and
// ends the process: a process in an unknown state must not write checkpoints.

import { type Clock, systemClock } from "../clock.ts";
import { createDeferred } from "../deferred.ts";
import { createLogger, type Logger, type LogLevel, logLevels } from "../observability/log.ts";
import { createMetrics, type Metrics } from "../observability/metrics.ts";
import type { Environment } from "../settings/config.ts";
import { parseDuration } from "../settings/duration.ts";
import { unknownSettings } from "../settings/known-settings.ts";
import type { ServiceContext, Stop } from "./service.ts";
import { exitCodes, startupProblemOf } from "./startup.ts";

const signalNumbers = { SIGINT: 2, SIGTERM: 15 } as const;
type StopSignal = keyof typeof signalNumbers;

/** npm and the terminal both deliver one Ctrl-C: a repeat within this time is not a second press. */
const sameKeyPressMs = 500;
/**
 * After a clean stop nothing should keep the process alive. After this time it warns and exits all the same.
 */
const lingerMs = 1_000;
/** The default of FLEET_STOP_TIMEOUT. */
const STOP_MS = 10_000;
const STOP_MARGIN_MS = 5_000;

export interface MainOptions {
  service: string;
  /** Called once. `signal` is aborted when the process is asked to stop, also while starting. */
  start: (context: ServiceContext, signal: AbortSignal) => Promise<Stop>;
  /** From the first signal to the end of `stop`. Default: FLEET_STOP_TIMEOUT and a little more. */
  stopTimeoutMs?: number;
  log?: Logger;
  metrics?: Metrics;
  clock?: Clock;
}

/** Resolves when started; the process runs until a signal or a defect ends it. */
export async function runMain(options: MainOptions): Promise<void> {
  const { service, start, stopTimeoutMs = stopLimit(process.env), clock = systemClock } = options;
  const log = options.log ?? createLogger({ service, ...levelOf(process.env) });
  const stopping = new AbortController();
  endOnDefects(log);
  for (const unknown of unknownSettings(process.env))
    log.warn(unknown, "the environment has an unknown setting");
  const started = createDeferred<Stop>();
  // Before the start: a signal during its first, synchronous part would otherwise kill the process.
  onStopSignals(log, stopping, () => stopWithin(stopTimeoutMs, log, started.promise));
  try {
    const metrics = options.metrics ?? createMetrics({ service });
    started.resolve(await start({ log, metrics, clock }, stopping.signal));
  } catch (error) {
    // A stop was requested during the start, so its failure is no problem.
    if (!stopping.signal.aborted) endOnFailedStart(service, log, error);
    started.reject(error);
  }
}

/** The levels of the stop share the time of the setting; this limit is for one that hangs. `start` reports a wrong setting. */
function stopLimit({ FLEET_STOP_TIMEOUT: text = "" }: Environment): number {
  return (parseDuration(text.trim()) ?? STOP_MS) + STOP_MARGIN_MS;
}

/** The level of the settings also holds before `start` has read them, which reports a wrong one. */
function levelOf({ FLEET_LOG_LEVEL: name }: Environment): { level?: LogLevel } {
  const level = logLevels.find((one) => one === name?.trim());
  return level === undefined ? {} : { level };
}

function onStopSignals(log: Logger, stopping: AbortController, stop: () => Promise<void>): void {
  let first: { signal: StopSignal; at: number } | undefined;
  for (const [signal, number] of Object.entries(signalNumbers) as [StopSignal, number][]) {
    process.on(signal, () => {
      if (first === undefined) {
        first = { signal, at: performance.now() };
        log.info({ signal }, "stopping");
        stopping.abort();
        void stop();
      } else if (
        signal === "SIGTERM" ||
        signal !== first.signal ||
        performance.now() - first.at > sameKeyPressMs
      ) {
        log.warn({ signal }, "stopping at once");
        process.exit(128 + number);
      }
    });
  }
}

async function stopWithin(timeoutMs: number, log: Logger, starting: Promise<Stop>): Promise<void> {
  const deadline = setTimeout(() => {
    log.error(
      { timeout_ms: timeoutMs, resources: process.getActiveResourcesInfo() },
      "stopping took too long",
    );
    process.exit(exitCodes.software);
  }, timeoutMs);
  try {
    const stop = await starting.catch((error: unknown) => {
      log.info({ error }, "start given up");
      return undefined;
    });
    await stop?.();
    clearTimeout(deadline);
    log.info("stopped");
    leaveSoon(log);
  } catch (error) {
    log.fatal({ error }, "stopping failed");
    process.exit(exitCodes.software);
  }
}

/** Lets the process end by itself, which proves that everything was closed; otherwise logs the open resources. */
function leaveSoon(log: Logger): void {
  setTimeout(() => {
    log.warn(
      { resources: process.getActiveResourcesInfo() },
      "something kept the process alive after the stop",
    );
    process.exit();
  }, lingerMs).unref();
}

function endOnDefects(log: Logger): void {
  const end = (text: string) => (error: unknown) => {
    try {
      log.fatal({ error }, text);
    } finally {
      process.exit(exitCodes.software);
    }
  };
  process.on("uncaughtException", end("uncaught exception"));
  process.on("unhandledRejection", end("unhandled rejection"));
}

function endOnFailedStart(service: string, log: Logger, error: unknown): never {
  const problem = startupProblemOf(error);
  if (problem === undefined) {
    log.fatal({ error }, "start failed");
    process.exit(exitCodes.software);
  }
  process.stderr.write(`${service}: ${problem.text}\n`);
  process.exit(problem.exitCode);
}
