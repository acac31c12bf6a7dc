/**
 * The runner starts agents from the offers of their types, on its machine or in a cluster, sends their heartbeats, and reports how they
 * ended. It uses only what every agent program may use.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Bus } from "../../shared/bus/bus.ts";
import { LAUNCHERS } from "../../shared/protocol/runner-settings.ts";
import { lockFolder } from "../../shared/runtime/process/folder-lock.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import { tlsFor } from "../../shared/sdk/address.ts";
import { fileSealOf } from "../../shared/sdk/encryption/file-seal.ts";
import { spoolFolderOf } from "../../shared/sdk/spool/places.ts";
import {
  type AgentCredentials,
  type CredentialsSource,
  localAgentCredentials,
  noAgentCredentials,
  signedAgentCredentials,
} from "./agent/agent-credentials.ts";
import { serveAgentRequests } from "./agent/agent-requests.ts";
import { Agents } from "./agents.ts";
import { launchSpec } from "./command.ts";
import type { RunnerConfig } from "./config.ts";
import { clientOn, openFleetPort } from "./fleet-connection.ts";
import { Journal } from "./journal.ts";
import { KubernetesLauncher } from "./launchers/kubernetes.ts";
import type { Launcher } from "./launchers/launcher.ts";
import { ProcessLauncher } from "./launchers/process.ts";
import { TmuxLauncher } from "./launchers/tmux.ts";
import { startOffers } from "./offers.ts";
import { SECOND_RUNNER_HINT } from "./runner-host.ts";

export interface RunnerContext extends ServiceContext {
  readonly bus: Bus;
  readonly config: RunnerConfig;
  readonly credentialsSource: CredentialsSource;
}

/** Throws StartupError if another runner uses the folder. */
export async function start(context: RunnerContext): Promise<Stop> {
  const { bus, config, clock, log } = context;
  const { settings, runnerName, runnerDir, tenant } = config;
  const seal = await fileSealOf(config.spoolKeys, process.env);
  const release = lockRunnerFolder(runnerDir);
  const launchers = launchersOf(context);
  const journal = new Journal(join(runnerDir, "agents"), log, seal);
  await journal.sealReported();
  const launchContext = {
    url: config.busUrl,
    caFile: tlsFor(config.busUrl, process.env).tls?.caFile,
    spoolDir: config.spoolDir ?? spoolFolderOf(process.env, bus.fleet, config.busUrl),
    logBytes: settings.log_bytes,
    env: process.env,
  };
  const client = clientOn(bus, { clock, log, tenant, agentId: `runner-${runnerName}` });
  const agents = new Agents({
    ...context,
    journal,
    fleet: openFleetPort(bus, client, { clock, log }),
    settings,
    launchers,
    tenant,
    serveRequests: (record, lifecycle) => serveAgentRequests(bus, record, lifecycle, log),
    host: runnerName,
    credentials: agentCredentialsOf(context),
    specOf: (record, agent, hasCredentials) =>
      launchSpec(record, agent, journal.paths(record.agent_id), { ...launchContext, hasCredentials }),
  });
  agents.resume();
  const types = new Map(Object.entries(settings.agents).map(([type, { max_agents }]) => [type, max_agents]));
  const stopOffers = startOffers({ client, agents, types, clock, log, metrics: context.metrics });
  log.info({ runner: runnerName, agent_types: [...types.keys()] }, "runner started");
  return async () => {
    await Promise.all([stopOffers(), agents.stop()]);
    await Promise.all(LAUNCHERS.map((name) => launchers[name].close()));
    release();
    log.info("runner stopped");
  };
}

function agentCredentialsOf({ bus, config, credentialsSource, clock, log }: RunnerContext): AgentCredentials {
  switch (credentialsSource) {
    case "keys":
      return localAgentCredentials(config.home, { clock, log });
    case "signer":
      return signedAgentCredentials(bus, `runner-${config.runnerName}`, { clock, log });
    case "none":
      return noAgentCredentials;
  }
}

function launchersOf({
  config,
  clock,
  log,
}: RunnerContext): Readonly<Record<(typeof LAUNCHERS)[number], Launcher>> {
  const { settings, runnerDir } = config;
  return {
    process: new ProcessLauncher(clock),
    tmux: new TmuxLauncher(runnerDir, clock),
    kubernetes: new KubernetesLauncher(
      (agentType) => {
        const agent = settings.agents[agentType];
        if (agent?.kubernetes === undefined)
          throw new Error("the settings of the agent type have no kubernetes section");
        return { kubernetes: agent.kubernetes, runMs: agent.run_ms, graceMs: settings.grace_ms };
      },
      clock,
      log,
    ),
  };
}

/** Two runners in one folder would both resume the agents of an earlier runner. */
function lockRunnerFolder(folder: string): () => void {
  const problem = (
    message: string,
    { hint, cause, ...details }: { hint: string; cause?: unknown; problem?: string | undefined },
  ): StartupError =>
    new StartupError(message, {
      exitCode: exitCodes.unavailable,
      details: { folder, ...details },
      hint,
      cause,
    });
  let release: (() => void) | undefined;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    release = lockFolder(folder)?.release;
  } catch (error) {
    throw problem("the runner's folder cannot be used", {
      problem: (error as NodeJS.ErrnoException).code,
      hint: "choose another folder with FLEET_RUNNER_DIR",
      cause: error,
    });
  }
  if (release === undefined) throw problem("another runner uses the folder", { hint: SECOND_RUNNER_HINT });
  return release;
}
