/**
 * The fleet under test: a nats-server, services and agents as separate processes, each connected to the bus through its own proxy. `alone`
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
import { type SupervisedNats, superviseNats } from "./nats.ts";
import { writePolicy } from "./policy.ts";
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
import { type NetworkProxy, startProxy } from "./proxy.ts";

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
