/** The base of a runner's process: tracing, the bus connection and the operations port, closed in the reverse order. */
import type { Bus } from "../../shared/bus/bus.ts";
import { connectBus } from "../../shared/bus/connection.ts";
import { serveOps } from "../../shared/runtime/observability/ops-server.ts";
import { startTracing } from "../../shared/runtime/observability/tracing.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { type Closers, createClosers } from "../../shared/runtime/process/shutdown.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import type { RunnerConfig } from "./config.ts";

const CHECK_MS = 1_500;
/** The first runner of a machine holds the default port and folder. */
export const SECOND_RUNNER_HINT =
  "a second runner on a machine needs its own FLEET_OPS_PORT (0: any free one) and its own FLEET_RUNNER_DIR";
/** More than the longest grace_ms that the settings allow. */
export const STOP_MS_MAX = 660_000;

export interface RunnerHost {
  readonly bus: Bus;
  readonly closers: Closers;
  readonly stop: Stop;
}

/** Throws StartupError after closing everything that was opened. */
export async function openRunnerHost(
  { log, clock, metrics }: ServiceContext,
  config: RunnerConfig,
): Promise<RunnerHost> {
  log.level = config.logLevel;
  const closers = createClosers(log, clock);
  const { settings, stopTimeout } = config;
  const graceMs = settings.on_stop === "stop" ? settings.grace_ms : 0;
  // Half of the time is for the steps after the agents, which need little of it.
  const stop = () => closers.close({ timeoutMs: 2 * (graceMs + stopTimeout) });
  try {
    const tracing = await startTracing({ service: "runner", endpoint: config.otlpEndpoint, log });
    closers.add("tracing", () => tracing.stop());
    const bus = await connected(config, log);
    closers.add("bus", () => bus.close());
    const ops = await serveOps({
      host: config.opsHost,
      port: config.opsPort,
      metrics: metrics.registry,
      log,
      checks: { bus: () => bus.health({ timeoutMs: CHECK_MS }) },
      takenHint: SECOND_RUNNER_HINT,
    });
    closers.add("operations port", () => ops.stop());
    return { bus, closers, stop };
  } catch (error) {
    await stop().catch((second: unknown) =>
      log.error({ error: second }, "closing after a failed start failed"),
    );
    throw error;
  }
}

async function connected(
  { busUrl, busCredentials, runnerName }: RunnerConfig,
  log: ServiceContext["log"],
): Promise<Bus> {
  try {
    return await connectBus({
      url: busUrl,
      name: `runner/${runnerName}`,
      service: "runner",
      identity: runnerName,
      log,
      ...(busCredentials !== undefined && { credentials: { credsFile: busCredentials } }),
    });
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError("the bus cannot be reached", {
      exitCode: exitCodes.unavailable,
      details: { url: busUrl, problem: error instanceof Error ? error.message : String(error) },
      hint: "start the fleet, or name one in another folder or on another port with FLEET_HOME or FLEET_URL",
      cause: error,
    });
  }
}
