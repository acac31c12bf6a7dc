/**
 * The fleet under test: the servers of the bus, services and agents as separate processes, each connected to the bus through proxies of its own. `alone`
 * is one process with every service, like the standalone fleet; `several` is two of each service on one store. The dispatcher alone has no
 * proxy, because it has no faults.
 */
import { join } from "node:path";
import { seededRandom } from "../../../load/workload.ts";
import { type HeartbeatRecorder, startHeartbeatRecorder } from "../agents/heartbeat-recorder.ts";
import { instant } from "../agents/history.ts";
import type { DispatcherMessage } from "../workers/dispatcher.ts";
import { openStoreDamager, type StoreDamager } from "../workers/store-damage.ts";
import type { DamageRequest } from "../workers/workers.ts";
import { type BusServers, superviseBus } from "./bus/bus-servers.ts";
import { NetworkLinks } from "./bus/network-links.ts";
import { silenceOf, writePolicy } from "./policy.ts";
import { SupervisedProcess } from "./process.ts";
import {
  agentProcess,
  dispatcherProcess,
  type FleetOptions,
  type FleetSetup,
  operatorProcess,
  type Program,
  runnerProcess,
  SHAPES,
  serviceProcess,
  takerProcess,
  workerProcess,
} from "./programs.ts";

export interface FaultFleet {
  readonly bus: BusServers;
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
  /** The links to the bus, by the name of their process. */
  readonly links: ReadonlyMap<string, NetworkLinks>;
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

/** The time until a killed process is restarted. */
const RESTART_MS = 200;
const READY_MS = 60_000;

/** Whether other processes can open the store; one broken build needs it for the damage. */
export const isShared = ({ shape, broken }: Pick<FleetOptions, "shape" | "broken">): boolean =>
  shape === "several" || broken === "unverified";

/** Throws when the fleet does not start; the processes that were started are killed. */
export async function startFaultFleet(o: FleetOptions): Promise<FaultFleet> {
  const bus = await superviseBus(join(o.folders.data, "nats"), o.busServers);
  const links = new Map<string, NetworkLinks>();
  const processes: SupervisedProcess[] = [];
  const killsAtPoints: KillAtPoint[] = [];
  const destroy = (): void => {
    for (const one of processes) one.destroy();
    bus.destroy();
  };
  const heartbeatRecorder = await startHeartbeatRecorder(bus.all.map(({ url }) => url));
  const killsUntil = instant() + 1_000 * o.killsMs;
  const policyFile = writePolicy(join(o.folders.root, "policy.json"), silenceOf(o));
  const setup: FleetSetup = {
    ...{ ...o, killsUntil, policyFile, streamBytes: bus.storeBytesMax },
    onKillPoint: (point) => killsAtPoints.push({ point, at: Date.now() }),
  };
  const add = (name: string, seed: number, url: string, program: Program): SupervisedProcess => {
    const one = new SupervisedProcess(program(setup, { name, seed, url }));
    processes.push(one);
    return one;
  };
  const start = async (name: string, seed: number, program: Program): Promise<SupervisedProcess> => {
    const ports = bus.all.map(({ port }) => port);
    const own = await NetworkLinks.open(ports, seededRandom(seed));
    links.set(name, own);
    return add(name, seed, own.url, program);
  };
  const startGroup = (role: string, seed: number, program: Program): Promise<SupervisedProcess[]> =>
    Promise.all([1, 2].map((i) => start(`${role}-${i}`, seed + 1_000 * i, program)));
  try {
    const services = await Promise.all(
      SHAPES[o.shape].map(([name, roles], i) => start(name, o.seed + 100 + i, serviceProcess(roles))),
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
    if (o.retention) agents.push(await start("operators", o.seed + 4_000, operatorProcess));
    await allReady(agents);
    // No other process can open, and so damage, an unshared store.
    const damager = isShared(o) ? await openStoreDamager(o, seededRandom(o.seed + 9_000)) : undefined;
    const startDispatcher = (program: Program) => add("dispatcher", o.seed + 7_000, bus.url, program);
    const working = await startWorkers({ startDispatcher, startGroup, damager, hasRunner, setup });
    const close = async (): Promise<void> => {
      await damager?.close();
      await heartbeatRecorder.close();
    };
    return {
      bus,
      services,
      agents,
      takers,
      ...working,
      heartbeatRecorder,
      killsAtPoints,
      links,
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
