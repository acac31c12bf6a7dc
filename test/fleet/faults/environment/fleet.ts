/**
 * The fleet under test: the servers of the bus, services and agents as separate processes, each connected to the bus through proxies of its own. `alone`
 * is one process with every service, like the standalone fleet; `several` is two of each service on one store; `rolling` has the programs that
 * operators start, with a gateway, signing services and credentials, for upgrades. The dispatcher alone has no proxy, because it has no faults.
 */
import { join } from "node:path";
import { freePort } from "../../../harness/free-port.ts";
import { projectRoot } from "../../../harness/project-root.ts";
import { seededRandom } from "../../../load/workload.ts";
import { type HeartbeatRecorder, startHeartbeatRecorder } from "../agents/heartbeat-recorder.ts";
import { instant } from "../agents/history.ts";
import { makeAccess, makeApiKey, type RoundAccess } from "../upgrade/access.ts";
import { HTTP_CALLER, type HttpCaller, startHttpCaller } from "../upgrade/http-caller.ts";
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
  mainProcess,
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
  /** The processes that have two trees, in the order of an upgrade. */
  readonly replacements: readonly Replaceable[];
  /** A caller of the HTTP API, where there is a gateway. */
  readonly httpCaller: HttpCaller | undefined;
  /** The links to the bus, by the name of their process. */
  readonly links: ReadonlyMap<string, NetworkLinks>;
  /** Closes the connections to the store and the bus, so that the final state can be read. */
  close(): Promise<void>;
  /** Kills all processes at once, at the end of the program. */
  destroy(): void;
}

export interface Replaceable {
  readonly name: string;
  /** Replaces the process by one of the old tree or of this one; resolves when that is ready. */
  readonly replace: (by: "old" | "new") => Promise<void>;
}

/** `at` is in milliseconds of the wall clock, as in the audit trail. */
export interface KillAtPoint {
  readonly point: string;
  readonly at: number;
}

/** The time until a killed process is restarted. */
const RESTART_MS = 200;
const READY_MS = 100_000;
const RUNNER = "runner";

/** Whether other processes can open the store; one broken build needs it for the damage. */
export const isShared = ({ shape, broken }: Pick<FleetOptions, "shape" | "broken">): boolean =>
  shape !== "alone" || broken === "unverified";

const hasRunner = ({ shape }: Pick<FleetOptions, "shape">): boolean => shape !== "alone";

/** Throws when the fleet does not start; the processes that were started are killed. */
export async function startFaultFleet(o: FleetOptions): Promise<FaultFleet> {
  const access = o.shape === "rolling" ? await makeAccess(o.folders.root, RUNNER) : undefined;
  const bus = await superviseBus(join(o.folders.data, "nats"), { size: o.busServers, access });
  const killsAtPoints: KillAtPoint[] = [];
  const heartbeatRecorder = await startHeartbeatRecorder(bus);
  const setup: FleetSetup = {
    ...o,
    killsUntil: instant() + 1_000 * o.killsMs,
    policyFile: writePolicy(join(o.folders.root, "policy.json"), silenceOf(o)),
    streamBytes: bus.storeBytesMax,
    onKillPoint: (point) => killsAtPoints.push({ point, at: Date.now() }),
    access,
  };
  const starter = new ProcessStarter(setup, bus);
  const destroy = (): void => {
    starter.destroy();
    bus.destroy();
  };
  try {
    const { services, gateway } = await startServices(setup, starter);
    const takers = await starter.startGroup("takers", o.seed + 5_000, takerProcess);
    await allReady(takers);
    const agents = await starter.startGroup("agents", o.seed, agentProcess(instant()));
    if (o.retention) agents.push(await starter.start("operators", o.seed + 4_000, operatorProcess));
    await allReady(agents);
    // No other process can open, and so damage, an unshared store. An upgrade has no faults.
    const damager =
      isShared(o) && o.oldTree === null ? await openStoreDamager(o, seededRandom(o.seed + 9_000)) : undefined;
    const working = await startWorkers({ starter, bus, damager, setup });
    return {
      ...{ bus, services, agents, takers, ...working, heartbeatRecorder, killsAtPoints, destroy },
      replacements: starter.replacements,
      httpCaller: gateway?.startCaller(),
      links: starter.links,
      async close() {
        await damager?.close();
        await heartbeatRecorder.close();
      },
    };
  } catch (error) {
    destroy();
    throw error;
  }
}

/** Starts the processes of a round, each behind proxies of its own. */
class ProcessStarter {
  readonly links = new Map<string, NetworkLinks>();
  readonly replacements: Replaceable[] = [];
  readonly #processes: SupervisedProcess[] = [];
  readonly #setup: FleetSetup;
  readonly #bus: BusServers;
  readonly #oldTree: string | undefined;

  constructor(setup: FleetSetup, bus: BusServers) {
    this.#setup = setup;
    this.#bus = bus;
    this.#oldTree = setup.oldTree ?? undefined;
  }

  /** Without a proxy. */
  add(name: string, program: Program, its: { seed: number; url: string; tree?: string | undefined }) {
    const one = new SupervisedProcess(program(this.#setup, { name, ...its }));
    this.#processes.push(one);
    return one;
  }

  async start(name: string, seed: number, program: Program, tree?: string): Promise<SupervisedProcess> {
    const ports = this.#bus.all.map(({ port }) => port);
    const own = await NetworkLinks.open(ports, seededRandom(seed));
    this.links.set(name, own);
    return this.add(name, program, { seed, url: own.url, tree });
  }

  /** Starts a process of the old tree, if there is one. */
  async startService(name: string, seed: number, program: Program): Promise<SupervisedProcess> {
    const old = this.#oldTree;
    const one = await this.start(name, seed, program, old);
    const { url } = this.links.get(name)!;
    const replace = (by: "old" | "new"): Promise<void> =>
      one.replace(program(this.#setup, { name, seed, url, tree: by === "old" ? old : projectRoot }));
    this.replacements.push({ name, replace });
    return one;
  }

  /** Starts two processes. One of them has the SDK of the old tree. */
  startGroup(role: string, seed: number, program: Program): Promise<SupervisedProcess[]> {
    return Promise.all(
      [1, 2].map((i) =>
        this.start(`${role}-${i}`, seed + 1_000 * i, program, i === 1 ? this.#oldTree : undefined),
      ),
    );
  }

  destroy(): void {
    for (const one of this.#processes) one.destroy();
  }
}

async function startServices(o: FleetSetup, starter: ProcessStarter) {
  const services: SupervisedProcess[] = [];
  for (const [i, [name, roles]] of SHAPES[o.shape].entries()) {
    const program = o.shape === "rolling" ? mainProcess(roles[0], await freePort()) : serviceProcess(roles);
    services.push(await starter.startService(name, o.seed + 100 + i, program));
  }
  await allReady(services);
  const gateway = o.access === undefined ? undefined : await gatewayOf(o, o.access);
  if (gateway !== undefined) {
    const signer = async (i: number) =>
      services.push(
        await starter.startService(
          `signer-${i}`,
          o.seed + 6_600 + i,
          mainProcess("signer", await freePort()),
        ),
      );
    // Each of them with another kind beside it, so that a short run replaces them together.
    await signer(1);
    services.push(await starter.startService("gateway", o.seed + 6_500, gateway.program));
    await signer(2);
  }
  // The runner has the same faults as the services.
  if (hasRunner(o)) services.push(await starter.startService(RUNNER, o.seed + 6_000, runnerProcess));
  await allReady(services);
  return { services, gateway };
}

/** The program of the gateway, and the start of its caller. */
async function gatewayOf({ folders, seed }: FleetOptions, access: RoundAccess) {
  const [opsPort, port] = [await freePort(), await freePort()];
  const keys = join(folders.root, "api-keys");
  const key = await makeApiKey(keys, HTTP_CALLER, access);
  const settings = { FLEET_GATEWAY_PORT: String(port), FLEET_GATEWAY_KEYS: keys };
  const url = `http://127.0.0.1:${port}`;
  return {
    program: mainProcess("gateway", opsPort, settings),
    startCaller: () => startHttpCaller({ url, key, historyFolder: folders.history, seed }),
  };
}

interface WorkerSetup {
  readonly starter: ProcessStarter;
  readonly bus: BusServers;
  readonly damager: StoreDamager | undefined;
  readonly setup: FleetSetup;
}

/** Starts the dispatcher and the workers. A worker that requests damage has its checkpoint damaged and is killed. */
async function startWorkers({
  starter,
  bus,
  damager,
  setup,
}: WorkerSetup): Promise<Pick<FaultFleet, "workers" | "dispatcher" | "started">> {
  const started = new Set<string>();
  const has = { canDamage: damager !== undefined, hasRunner: hasRunner(setup) };
  const dispatcher = starter.add("dispatcher", dispatcherProcess(has, started), {
    ...{ seed: setup.seed + 7_000, url: bus.url },
  });
  const damageAndKill = async (
    name: string,
    { task, checkpointId }: DamageRequest["damage"],
  ): Promise<void> => {
    const isDamaged = await damager?.damage(task, checkpointId).catch((error: Error) => {
      // The history has the damage already, so its absence looks like a fault of the fleet.
      console.error(`the damage of a checkpoint of ${task} failed: ${error.message}`);
      return false;
    });
    workers.find((one) => one.name === name)?.kill(RESTART_MS);
    setup.onKillPoint("worker whose checkpoint was damaged");
    if (isDamaged) dispatcher.send({ damaged: { task, checkpointId } } satisfies DispatcherMessage);
  };
  const workers = await starter.startGroup("workers", setup.seed + 8_000, workerProcess(damageAndKill));
  await allReady([dispatcher, ...workers]);
  return { workers, dispatcher, started };
}

async function allReady(processes: readonly SupervisedProcess[]): Promise<void> {
  const up = await Promise.all(processes.map((one) => one.ready(READY_MS)));
  const down = processes.find((_, i) => !up[i]);
  if (down !== undefined) throw new Error(`${down.name} did not start:\n${down.logTail()}`);
}
