/** A simulated runner with the agents that it starts. The runner and its launcher of processes are the production code. */
import { join } from "node:path";
import type { RunnerConfig } from "../../../services/runner/config.ts";
import {
  type AgentNote,
  agentFiles,
  type LaunchNote,
} from "../../../services/runner/launchers/agent-folder.ts";
import type { Exit } from "../../../services/runner/launchers/launcher.ts";
import { start } from "../../../services/runner/runner.ts";
import type { FailureClass } from "../../../shared/protocol/exit-report.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { runnerSettingsSchema } from "../../../shared/protocol/runner-settings.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { readJson, writeOnce, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { classOfError } from "../../../shared/sdk/agent/failure.ts";
import { runAgent } from "../../../shared/sdk/sdk.ts";
import { withCalls } from "../../fleet/faults/workers/calls.ts";
import { HEARTBEAT_MS, LAUNCHED } from "../../fleet/faults/workers/task-kinds.ts";
import { WorkFailure, work } from "../../fleet/faults/workers/worker.ts";
import { SIMULATED_FOLDER } from "../machine/file-system.ts";
import type { ProcessTable, Program } from "../machine/process-table.ts";
import { SILENT_LOG } from "../silent-log.ts";
import { currentProcess } from "../time/processes.ts";
import { SimulatedAgents } from "./agents.ts";
import { connectHost, killsOf, type WorldHost } from "./host.ts";

const AGENTS_MAX = 3;
const SETTINGS = runnerSettingsSchema.parse({
  agents: {
    [LAUNCHED]: { command: ["agent"], cwd: SIMULATED_FOLDER, heartbeats: false, max_agents: AGENTS_MAX },
  },
  ...{ max_agents: AGENTS_MAX, grace_ms: 5_000 },
});

const CONFIG = {
  ...{ settings: SETTINGS, runnerName: "simulated", tenant: DEFAULT_TENANT, busUrl: "nats://simulated:4222" },
  ...{ runnerDir: join(SIMULATED_FOLDER, "runner"), spoolDir: join(SIMULATED_FOLDER, "spool") },
  ...{ home: SIMULATED_FOLDER, spoolKeys: undefined },
} as unknown as RunnerConfig;

export async function startRunner(host: WorldHost, incarnation: string): Promise<Stop> {
  const group = new SimulatedAgents(host, incarnation);
  const bus = await connectHost(host, { identity: "runner-simulated", tenant: DEFAULT_TENANT });
  const stop = await start({
    ...{ clock: systemClock, log: SILENT_LOG, metrics: host.metrics, config: CONFIG },
    ...{ bus: withCalls(group.recorder.recorded(bus), group), credentialsSource: "none" },
  });
  return async () => {
    await stop();
    await group.stop(Promise.resolve());
    await bus.close();
  };
}

const now = (): string => new Date().toISOString();

/**
 * In place of the agent's parent process, whose program is made for a process of its own: it starts the agent, and records its process and its end
 * in the same files.
 */
export function shimProgram(host: () => WorldHost, processes: ProcessTable, folder: string): Program {
  return async (env) => {
    const files = agentFiles(folder);
    if (!writeOnce(files.shim, JSON.stringify({ pid: process.pid, mark: processMark(process.pid) ?? "" })))
      return 0;
    if (readJson<LaunchNote>(files.launch) === undefined) return 1;
    const startedAt = now();
    const { pid, exited } = processes.start(`process-of-${env.FLEET_AGENT_ID}`, launchedAgent(host()), env);
    writeWhole(
      files.agent,
      JSON.stringify({ pid, mark: processMark(pid) ?? "", startedAt } satisfies AgentNote),
    );
    const { code, signal } = await currentProcess()!.arrival(exited);
    const facts = { problem: null, outOfMemory: false, lost: false, startedAt, endedAt: now() };
    writeWhole(files.exit, JSON.stringify({ code, signal, ...facts } satisfies Exit));
    return 0;
  };
}

const classify = (error: unknown): FailureClass =>
  error instanceof WorkFailure ? error.class : classOfError(error);

/** The task is named instead of read from the environment: the SDK remembers for the whole real process which tasks of runners it has begun. */
const launchedAgent =
  (host: WorldHost): Program =>
  async (env, terminated) => {
    const {
      FLEET_AGENT_ID: agent = "",
      FLEET_TASK: task = "",
      FLEET_FENCE: fence,
      FLEET_EXIT_FILE: note = "",
    } = env;
    const group = new SimulatedAgents(host, currentProcess()!.name);
    const { client } = await group.connect(agent, (bus) => withCalls(bus, group));
    const context = {
      ...{ agent, history: group.history, random: Math.random },
      ...{ kills: killsOf(host), damage: () => {} },
    };
    try {
      await runAgent({
        ...{ fleet: client, type: LAUNCHED, task, fence: Number(fence), heartbeatMs: HEARTBEAT_MS },
        ...{ signal: terminated, checkpoints: { items: 1 }, log: () => {}, classify },
        work: (run) => work(run, context),
      });
      return 0;
    } catch (error) {
      writeWhole(note, JSON.stringify({ class: classify(error) }));
      return 1;
    } finally {
      await group.stop(Promise.resolve());
    }
  };
