/**
 * The fleet under test: a nats-server, services and agents as separate processes, each connected to the bus through its own proxy. `alone`
 * is one process with every service, like the standalone fleet; `several` is two of each service on one store. The dispatcher alone has no
 * proxy, because it has no faults.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../../../harness/project-root.ts";
import { seededRandom } from "../../../load/workload.ts";
import type { AgentGroupArguments, Progress } from "../agents/agent-group.ts";
import type { AgentsArguments } from "../agents/agents.ts";
import { type HeartbeatRecorder, startHeartbeatRecorder } from "../agents/heartbeat-recorder.ts";
import { instant } from "../agents/history.ts";
import type { TakersArguments } from "../agents/takers.ts";
import type { DispatcherArguments, DispatcherMessage, TaskStarted } from "../workers/dispatcher.ts";
import type { LaunchedAgentArguments } from "../workers/launched-agent.ts";
import { openStoreDamager, type StoreDamager } from "../workers/store-damage.ts";
import { HEALTHY as HEALTHY_TYPE, LAUNCHED, WORKER } from "../workers/task-kinds.ts";
import type { DamageRequest, WorkersArguments } from "../workers/workers.ts";
import type { BrokenName } from "./broken-builds.ts";
import { type SupervisedNats, superviseNats } from "./nats.ts";
import { POLICY, writePolicy } from "./policy.ts";
import { type ProcessOptions, SupervisedProcess } from "./process.ts";
import { type NetworkProxy, startProxy } from "./proxy.ts";
import type { RoundFolders } from "./round-folders.ts";
import type { Role, ServiceArguments } from "./service.ts";

export const SHAPES = {
  alone: [["all-in-one", ["writer", "reader", "coordinator", "watchdog"]]],
  several: [
    ["writer-1", ["writer"]],
    ["writer-2", ["writer"]],
    ["reader-1", ["reader"]],
    ["reader-2", ["reader"]],
    ["coordinator-1", ["coordinator"]],
    ["coordinator-2", ["coordinator"]],
    ["watchdog-1", ["watchdog"]],
    ["watchdog-2", ["watchdog"]],
  ],
} as const satisfies Record<string, readonly (readonly [string, readonly Role[]])[]>;
export type Shape = keyof typeof SHAPES;

export interface FleetOptions {
  readonly shape: Shape;
  readonly folders: RoundFolders;
  readonly storeUrl: string;
  readonly seed: number;
  readonly broken: BrokenName | null;
  /** The time in which processes are killed at kill points; 0: no such kills. */
  readonly killsMs: number;
  readonly onProgress: (progress: Progress) => void;
}

export interface FaultFleet {
  readonly nats: SupervisedNats;
  readonly services: readonly SupervisedProcess[];
  readonly agents: readonly SupervisedProcess[];
  /** The processes that accept handoffs. They continue after the agents have stopped, so that every handoff ends. */
  readonly takers: readonly SupervisedProcess[];
  /** The processes of workers, whose tasks must be completed in spite of all faults. */
  readonly workers: readonly SupervisedProcess[];
  readonly dispatcher: SupervisedProcess;
  /** The ids of the tasks that the dispatcher has started. */
  readonly started: ReadonlySet<string>;
  readonly heartbeatRecorder: HeartbeatRecorder;
  /** The kills at kill points. */
  readonly killsAtPoints: readonly KillAtPoint[];
  /** The proxies, by the name of the process whose connection they carry. */
  readonly proxies: ReadonlyMap<string, NetworkProxy>;
  /** Closes the connections to the store and the bus, so that the final state can be read. */
  close(): Promise<void>;
  /** Kills all processes at once, at the end of the program. */
  destroy(): void;
}

/** `at` is in milliseconds of the wall clock, as in the audit trail. */
export interface KillAtPoint {
  readonly point: string;
  readonly at: number;
}

const RUNNER_PROGRAM = "test/fleet/faults/workers/runner.ts";
const LAUNCHED_PROGRAM = "test/fleet/faults/workers/launched-agent.ts";
const AGENTS_EACH = 4;
const WORKERS_EACH = 5;
const HEALTHY = 4;
/** The time until a killed process is restarted. */
const RESTART_MS = 200;
const READY_MS = 60_000;

/** Whether other processes can open the store; one broken build needs it for the damage. */
export const isShared = ({ shape, broken }: Pick<FleetOptions, "shape" | "broken">): boolean =>
  shape === "several" || broken === "unverified";

/** Throws when the fleet does not start; the processes that were started are killed. */
export async function startFaultFleet(o: FleetOptions): Promise<FaultFleet> {
  const nats = await superviseNats(join(o.folders.data, "nats"));
  const proxies = new Map<string, NetworkProxy>();
  const processes: SupervisedProcess[] = [];
  const killsAtPoints: KillAtPoint[] = [];
  const destroy = (): void => {
    for (const one of processes) one.destroy();
    nats.resume();
    nats.kill(0);
  };
  const heartbeatRecorder = await startHeartbeatRecorder(nats.url);
  const killsUntil = instant() + 1_000 * o.killsMs;
  const policyFile = writePolicy(join(o.folders.root, "policy.json"));
  const setup: FleetSetup = {
    ...{ ...o, killsUntil, policyFile, streamBytes: nats.storeBytesMax },
    onKillPoint: (point) => killsAtPoints.push({ point, at: Date.now() }),
  };
  const add = (name: string, seed: number, url: string, program: Program): SupervisedProcess => {
    const one = new SupervisedProcess(program(setup, { name, seed, url }));
    processes.push(one);
    return one;
  };
  const start = async (name: string, seed: number, program: Program): Promise<SupervisedProcess> => {
    const proxy = await startProxy({ targetPort: nats.port, random: seededRandom(seed) });
    proxies.set(name, proxy);
    return add(name, seed, `nats://127.0.0.1:${proxy.port}`, program);
  };
  const startGroup = (role: string, seed: number, program: Program): Promise<SupervisedProcess[]> =>
    Promise.all([1, 2].map((i) => start(`${role}-${i}`, seed + 1_000 * i, program)));
  try {
    const services = await Promise.all(
      SHAPES[o.shape].map(([name, roles], i) => start(name, o.seed + 100 + i, service(roles))),
    );
    await allReady(services);
    // The runner has the same faults as the services.
    const hasRunner = o.shape === "several";
    if (hasRunner) {
      services.push(await start("runner", o.seed + 6_000, runnerProcess));
      await allReady(services);
    }
    const takers = await startGroup("takers", o.seed + 5_000, takerProcess);
    await allReady(takers);
    const agents = await startGroup("agents", o.seed, agentProcess(instant()));
    await allReady(agents);
    // No other process can open, and so damage, an unshared store.
    const damager = isShared(o) ? await openStoreDamager(o, seededRandom(o.seed + 9_000)) : undefined;
    const startDispatcher = (program: Program) => add("dispatcher", o.seed + 7_000, nats.url, program);
    const working = await startWorkers({ startDispatcher, startGroup, damager, hasRunner, setup });
    const close = async (): Promise<void> => {
      await damager?.close();
      await heartbeatRecorder.close();
    };
    return {
      nats,
      services,
      agents,
      takers,
      ...working,
      heartbeatRecorder,
      killsAtPoints,
      proxies,
      close,
      destroy,
    };
  } catch (error) {
    destroy();
    throw error;
  }
}

interface WorkerSetup {
  readonly startDispatcher: (program: Program) => SupervisedProcess;
  readonly startGroup: (role: string, seed: number, program: Program) => Promise<SupervisedProcess[]>;
  readonly damager: StoreDamager | undefined;
  readonly hasRunner: boolean;
  readonly setup: FleetSetup;
}

/** Starts the dispatcher and the workers. A worker that requests damage has its checkpoint damaged and is killed. */
async function startWorkers({
  startDispatcher,
  startGroup,
  damager,
  hasRunner,
  setup,
}: WorkerSetup): Promise<Pick<FaultFleet, "workers" | "dispatcher" | "started">> {
  const started = new Set<string>();
  const dispatcher = startDispatcher(
    dispatcherProcess({ canDamage: damager !== undefined, hasRunner }, started),
  );
  const damageAndKill = async (
    name: string,
    { task, checkpointId }: DamageRequest["damage"],
  ): Promise<void> => {
    const isDamaged = await damager?.damage(task, checkpointId).catch(() => false);
    workers.find((one) => one.name === name)?.kill(RESTART_MS);
    setup.onKillPoint("worker whose checkpoint was damaged");
    if (isDamaged) dispatcher.send({ damaged: { task, checkpointId } } satisfies DispatcherMessage);
  };
  const workers = await startGroup("workers", setup.seed + 8_000, workerProcess(damageAndKill));
  await allReady([dispatcher, ...workers]);
  return { workers, dispatcher, started };
}

async function allReady(processes: readonly SupervisedProcess[]): Promise<void> {
  const up = await Promise.all(processes.map((one) => one.ready(READY_MS)));
  const down = processes.find((_, i) => !up[i]);
  if (down !== undefined) throw new Error(`${down.name} did not start:\n${down.logTail()}`);
}

interface FleetSetup extends FleetOptions {
  readonly killsUntil: number;
  readonly policyFile: string;
  readonly streamBytes: number;
  readonly onKillPoint: (point: string) => void;
}

type Program = (
  o: FleetSetup,
  its: { readonly name: string; readonly seed: number; readonly url: string },
) => ProcessOptions;

const service =
  (roles: readonly Role[]): Program =>
  ({ folders, storeUrl, broken, streamBytes, killsUntil, policyFile, onKillPoint }, { name, seed, url }) => ({
    name,
    program: "test/fleet/faults/environment/service.ts",
    parameters: (incarnation): ServiceArguments => ({
      roles,
      seed: seed + incarnation,
      broken,
      streamBytes,
      killsUntil,
    }),
    env: {
      FLEET_URL: url,
      FLEET_STORE: storeUrl,
      FLEET_AUTH: "off",
      FLEET_POLICY: policyFile,
      FLEET_AGENT_TYPES: [WORKER, HEALTHY_TYPE, LAUNCHED].join(),
      // Short, so that a round has many finalizations by the fleet itself.
      FLEET_FINALIZE_DRAFTS_AFTER: "3s",
      // The checker compares every version that was ever written.
      FLEET_RETENTION_EVERY: "off",
      // It would restore the checkpoints that the run damages, and no agent would have to fall back.
      FLEET_MIRROR_DIR: "off",
      FLEET_OPS_PORT: "0",
      FLEET_LOG_LEVEL: "warn",
    },
    logFile: join(folders.logs, `${name}.log`),
    onKillPoint,
  });

const groupProcess = <A extends AgentGroupArguments>(
  { folders, onProgress, onKillPoint }: FleetSetup,
  { name, seed, url }: { readonly name: string; readonly seed: number; readonly url: string },
  own: {
    readonly program: string;
    readonly further: Omit<A, keyof AgentGroupArguments>;
    readonly onMessage?: (message: unknown) => void;
  },
): ProcessOptions => ({
  name,
  program: own.program,
  parameters: (incarnation) => ({
    name,
    incarnation,
    seed: seed + 17 * incarnation,
    url,
    historyFolder: folders.history,
    spoolFolder: join(folders.data, "spool"),
    ...own.further,
  }),
  env: {},
  logFile: join(folders.logs, `${name}.log`),
  onMessage: (message) => {
    if ((message as Partial<Progress>).done !== undefined) onProgress(message as Progress);
    else own.onMessage?.(message);
  },
  onKillPoint,
});

const agentProcess =
  (beganAt: number): Program =>
  (o, its) =>
    groupProcess<AgentsArguments>(o, its, {
      program: "test/fleet/faults/agents/agents.ts",
      further: { agents: AGENTS_EACH, beganAt },
    });

const takerProcess: Program = (o, its) =>
  groupProcess<TakersArguments>(o, its, {
    program: "test/fleet/faults/agents/takers.ts",
    further: { killsUntil: o.killsUntil, firstCheckpointMs: POLICY.defaults.first_checkpoint_ms },
  });

const workerProcess =
  (damage: (name: string, request: DamageRequest["damage"]) => Promise<void>): Program =>
  (o, its) =>
    groupProcess<WorkersArguments>(o, its, {
      program: "test/fleet/faults/workers/workers.ts",
      further: { workers: WORKERS_EACH, killsUntil: o.killsUntil },
      onMessage: (message) => void damage(its.name, (message as DamageRequest).damage),
    });

const dispatcherProcess =
  (has: Pick<DispatcherArguments, "canDamage" | "hasRunner">, started: Set<string>): Program =>
  (o, its) =>
    groupProcess<DispatcherArguments>(o, its, {
      program: "test/fleet/faults/workers/dispatcher.ts",
      further: { healthy: HEALTHY, open: 2 * WORKERS_EACH, ...has },
      onMessage: (message) => started.add((message as TaskStarted).started),
    });

const LAUNCHED_MAX = 3;

/** The runner with the program of its agents, which it starts for each task. */
const runnerProcess: Program = (o, its) => {
  const { folders, killsUntil } = o;
  const folder = join(folders.data, "runner");
  const parameters: LaunchedAgentArguments = { seed: its.seed, historyFolder: folders.history, killsUntil };
  const command = [process.execPath, join(projectRoot, LAUNCHED_PROGRAM), JSON.stringify(parameters)];
  const agents = { [LAUNCHED]: { command, heartbeats: false, max_agents: LAUNCHED_MAX } };
  const settings = join(folders.root, "runner.json");
  writeFileSync(settings, JSON.stringify({ agents, max_agents: LAUNCHED_MAX, grace_ms: 5_000 }));
  const { env, ...rest } = groupProcess<AgentGroupArguments>(o, its, {
    program: RUNNER_PROGRAM,
    further: {},
  });
  return {
    ...rest,
    env: {
      ...env,
      FLEET_URL: its.url,
      FLEET_RUNNER_CONFIG: settings,
      FLEET_RUNNER_DIR: folder,
      FLEET_RUNNER_NAME: its.name,
      FLEET_SPOOL_DIR: join(folders.data, "spool"),
      FLEET_OPS_PORT: "0",
      FLEET_LOG_LEVEL: "warn",
    },
  };
};
