/** The base of a runner's process: tracing, the bus connection and the operations port, closed in the reverse order. */
import { type Bus, BusError } from "../../shared/bus/bus.ts";
import { type BusCredentials, connectBus } from "../../shared/bus/connection.ts";
import { SUBJECTS } from "../../shared/protocol/subjects.ts";
import { type Health, serveOps } from "../../shared/runtime/observability/ops-server.ts";
import { startTracing } from "../../shared/runtime/observability/tracing.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { type Closers, createClosers } from "../../shared/runtime/process/shutdown.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import { tlsFor } from "../../shared/sdk/address.ts";
import { credentialsOf } from "../../shared/sdk/client/connect.ts";
import type { CredentialsSource } from "./agent/agent-credentials.ts";
import type { RunnerConfig } from "./config.ts";

const CHECK_MS = 1_500;
/** The first runner of a machine holds the default port and folder. */
export const SECOND_RUNNER_HINT =
  "a second runner on a machine needs its own FLEET_OPS_PORT (0: any free one) and its own FLEET_RUNNER_DIR";
/** More than the longest grace_ms that the settings allow. */
export const STOP_MS_MAX = 660_000;

export interface RunnerHost {
  readonly bus: Bus;
  readonly credentialsSource: CredentialsSource;
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
    const credentials = await findCredentials(config);
    const bus = await connected(config, credentials, log);
    closers.add("bus", () => bus.close());
    await requireRights(bus, config);
    const ops = await serveOps({
      host: config.opsHost,
      port: config.opsPort,
      metrics: metrics.registry,
      log,
      checks: { fleet: () => fleetHealth(bus, config) },
      takenHint: SECOND_RUNNER_HINT,
    });
    closers.add("operations port", () => ops.stop());
    return { bus, credentialsSource: sourceOf(credentials), closers, stop };
  } catch (error) {
    await stop().catch((second: unknown) =>
      log.error({ error: second }, "closing after a failed start failed"),
    );
    throw error;
  }
}

/** A runner that made its own credentials has the fleet's keys on its machine. */
function sourceOf(credentials: BusCredentials | undefined): CredentialsSource {
  if (credentials === undefined) return "none";
  return credentials.creds === undefined ? "signer" : "keys";
}

function findCredentials(config: RunnerConfig): Promise<BusCredentials | undefined> {
  const { busUrl: url, tenant, runnerName } = config;
  return credentialsOf({ role: "runner", tenant, agentId: `runner-${runnerName}`, url }, process.env)();
}

async function connected(
  config: RunnerConfig,
  credentials: BusCredentials | undefined,
  log: ServiceContext["log"],
): Promise<Bus> {
  const { busUrl, tenant, runnerName, expected } = config;
  try {
    return await connectBus({
      url: busUrl,
      expected,
      name: `runner/${runnerName}`,
      tenant,
      identity: `runner-${runnerName}`,
      log,
      ...tlsFor(busUrl, process.env),
      ...(credentials !== undefined && { credentials }),
    });
  } catch (error) {
    if (error instanceof StartupError) throw error;
    if (isRefused(error))
      throw refused(credentials === undefined ? "without credentials" : "with these credentials", error);
    const isOther = error instanceof BusError && error.kind === "other_fleet";
    throw new StartupError(isOther ? error.message : "the bus cannot be reached", {
      exitCode: exitCodes.unavailable,
      details: isOther
        ? error.details
        : { url: busUrl, problem: error instanceof Error ? error.message : String(error) },
      hint: "start the fleet, or name one in another folder or on another port with FLEET_HOME or FLEET_URL",
      cause: error,
    });
  }
}

/**
 * A reader answers, which the runner asks about an offer before it starts an agent. Any answer will do. The role has no rights to ask the
 * bus itself.
 */
async function fleetHealth(bus: Bus, { tenant, runnerName }: RunnerConfig): Promise<Health> {
  const subject = SUBJECTS.query(tenant, `runner-${runnerName}`, "task");
  await bus.request(subject, { body: Buffer.from("{}") }, { timeoutMs: CHECK_MS });
  return { ok: true, detail: "a reader answers" };
}

/** A runner with the credentials of another role would accept no offer, and its agents would send no heartbeat. */
async function requireRights(bus: Bus, { tenant, runnerName }: RunnerConfig): Promise<void> {
  try {
    // Only a runner may receive the requests to its agents.
    const stop = await bus.subscribe(SUBJECTS.agentRequests(tenant, runnerName, "restart"), () => {});
    await stop();
  } catch (error) {
    if (!isRefused(error)) throw error;
    throw refused("with the credentials of another role or tenant", error);
  }
}

const isRefused = (error: unknown): boolean => error instanceof BusError && error.kind === "permission";

function refused(what: string, cause: unknown): StartupError {
  return new StartupError(`the bus refuses a runner ${what}`, {
    exitCode: exitCodes.config,
    hint: "run it as the user of the fleet with its FLEET_HOME, or set FLEET_NATS_CREDS to a file from `fleet access issue --role runner`",
    cause,
  });
}
