/**
 * The fleet under test: a nats-server, services and agents as processes of their own, each connected to the bus through a proxy of its
 * own. `alone` is one process with every service, as the standalone fleet has them; `several` is two of each on one store. The office
 * alone has no proxy: nothing is ever done to it.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../../../harness/project-root.ts";
import { seededRandom } from "../../../load/workload.ts";
import type { AgentsArguments } from "../agents/agents.ts";
import type { CrewArguments, Progress } from "../agents/crew.ts";
import { instant } from "../agents/history.ts";
import type { TakersArguments } from "../agents/takers.ts";
import { startWitness, type Witness } from "../agents/witness.ts";
import { openVandal, type Vandal } from "../workers/damage.ts";
import type { HiredArguments } from "../workers/hired.ts";
import { HEALTHY as HEALTHY_TYPE, HIRED, WORKER } from "../workers/kinds.ts";
import type { OfficeArguments, OfficeOrder, Started } from "../workers/office.ts";
import type { DamageWish, WorkersArguments } from "../workers/workers.ts";
import type { BrokenName } from "./broken.ts";
import { type SupervisedNats, superviseNats } from "./nats.ts";
import { POLICY, writePolicy } from "./policy.ts";
import { type ProcessOptions, SupervisedProcess } from "./process.ts";
import { type NetworkProxy, startProxy } from "./proxy.ts";
import type { Role, ServiceArguments } from "./service.ts";
import type { Zone } from "./zone.ts";

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
  readonly zone: Zone;
  readonly storeUrl: string;
  readonly seed: number;
  readonly broken: BrokenName | null;
  /** How long processes may die at moments of their own choosing; 0: not at all. */
  readonly deathsMs: number;
  readonly onProgress: (progress: Progress) => void;
}

export interface FaultFleet {
  readonly nats: SupervisedNats;
  readonly services: readonly SupervisedProcess[];
  readonly agents: readonly SupervisedProcess[];
  /** They go on when the agents have stopped: what was handed over is to come to an end. */
  readonly takers: readonly SupervisedProcess[];
  /** They work in earnest: whatever becomes of them, their tasks get done. */
  readonly workers: readonly SupervisedProcess[];
  readonly office: SupervisedProcess;
  /** The tasks that the office has started. */
  readonly started: ReadonlySet<string>;
  readonly witness: Witness;
  /** The moments at which processes chose to die. */
  readonly deaths: readonly Death[];
  /** By the name of the process whose connection it carries. */
  readonly proxies: ReadonlyMap<string, NetworkProxy>;
  /** Lets go of the store and the bus, so that what is left can be read. */
  close(): Promise<void>;
  /** For the end of the program: kills everything at once. */
  destroy(): void;
}

/** `at`: of the wall clock, as the audit trail has it. */
export interface Death {
  readonly moment: string;
  readonly at: number;
}

const RUNNER_PROGRAM = "test/fleet/faults/workers/runner.ts";
const HIRED_PROGRAM = "test/fleet/faults/workers/hired.ts";
const AGENTS_EACH = 4;
const WORKERS_EACH = 5;
const HEALTHY = 4;
/** A killed process stays away for so long, in milliseconds. */
const DEAD_MS = 200;
const READY_MS = 60_000;

/** Whether other processes can open the store; one broken build shows only what was damaged. */
export const isShared = ({ shape, broken }: Pick<FleetOptions, "shape" | "broken">): boolean =>
  shape === "several" || broken === "unverified";

/** Throws when it does not come up; what was started by then is destroyed. */
export async function startFaultFleet(o: FleetOptions): Promise<FaultFleet> {
  const nats = await superviseNats(join(o.zone.data, "nats"));
  const proxies = new Map<string, NetworkProxy>();
  const processes: SupervisedProcess[] = [];
  const deaths: Death[] = [];
  const destroy = (): void => {
    for (const one of processes) one.destroy();
    nats.resume();
    nats.kill(0);
  };
  const witness = await startWitness(nats.url);
  const deathsUntil = instant() + 1_000 * o.deathsMs;
  const policyFile = writePolicy(join(o.zone.root, "policy.json"));
  const place: Place = {
    ...{ ...o, deathsUntil, policyFile, streamBytes: nats.storeBytesMax },
    onDying: (moment) => deaths.push({ moment, at: Date.now() }),
  };
  const add = (name: string, seed: number, url: string, program: Program): SupervisedProcess => {
    const one = new SupervisedProcess(program(place, { name, seed, url }));
    processes.push(one);
    return one;
  };
  const start = async (name: string, seed: number, program: Program): Promise<SupervisedProcess> => {
    const proxy = await startProxy({ targetPort: nats.port, random: seededRandom(seed) });
    proxies.set(name, proxy);
    return add(name, seed, `nats://127.0.0.1:${proxy.port}`, program);
  };
  const startCrew = (role: string, seed: number, program: Program): Promise<SupervisedProcess[]> =>
    Promise.all([1, 2].map((i) => start(`${role}-${i}`, seed + 1_000 * i, program)));
  try {
    const services = await Promise.all(
      SHAPES[o.shape].map(([name, roles], i) => start(name, o.seed + 100 + i, service(roles))),
    );
    await allReady(services);
    // Beside the services: it is killed, frozen and stopped as they are.
    const hasRunner = o.shape === "several";
    if (hasRunner) {
      services.push(await start("runner", o.seed + 6_000, runnerProcess));
      await allReady(services);
    }
    const takers = await startCrew("takers", o.seed + 5_000, takerProcess);
    await allReady(takers);
    const agents = await startCrew("agents", o.seed, agentProcess(instant()));
    await allReady(agents);
    // Of a store that one process has for itself nobody else can damage anything.
    const vandal = isShared(o) ? await openVandal(o, seededRandom(o.seed + 9_000)) : undefined;
    const openOffice = (program: Program) => add("office", o.seed + 7_000, nats.url, program);
    const working = await startWorking({ openOffice, startCrew, vandal, hasRunner, place });
    const close = async (): Promise<void> => {
      await vandal?.close();
      await witness.close();
    };
    return { nats, services, agents, takers, ...working, witness, deaths, proxies, close, destroy };
  } catch (error) {
    destroy();
    throw error;
  }
}

interface Hiring {
  readonly openOffice: (program: Program) => SupervisedProcess;
  readonly startCrew: (role: string, seed: number, program: Program) => Promise<SupervisedProcess[]>;
  readonly vandal: Vandal | undefined;
  readonly hasRunner: boolean;
  readonly place: Place;
}

/** The office and the workers; a worker that wishes so has a checkpoint damaged, and is killed. */
async function startWorking({
  openOffice,
  startCrew,
  vandal,
  hasRunner,
  place,
}: Hiring): Promise<Pick<FaultFleet, "workers" | "office" | "started">> {
  const started = new Set<string>();
  const office = openOffice(officeProcess({ canDamage: vandal !== undefined, hasRunner }, started));
  const hurt = async (name: string, { task, checkpointId }: DamageWish["damage"]): Promise<void> => {
    const isDamaged = await vandal?.damage(task, checkpointId).catch(() => false);
    workers.find((one) => one.name === name)?.kill(DEAD_MS);
    place.onDying("worker whose checkpoint was damaged");
    if (isDamaged) office.send({ damaged: { task, checkpointId } } satisfies OfficeOrder);
  };
  const workers = await startCrew("workers", place.seed + 8_000, workerProcess(hurt));
  await allReady([office, ...workers]);
  return { workers, office, started };
}

async function allReady(processes: readonly SupervisedProcess[]): Promise<void> {
  const up = await Promise.all(processes.map((one) => one.ready(READY_MS)));
  const down = processes.find((_, i) => !up[i]);
  if (down !== undefined) throw new Error(`${down.name} did not start:\n${down.logTail()}`);
}

interface Place extends FleetOptions {
  readonly deathsUntil: number;
  readonly policyFile: string;
  readonly streamBytes: number;
  readonly onDying: (moment: string) => void;
}

type Program = (
  o: Place,
  its: { readonly name: string; readonly seed: number; readonly url: string },
) => ProcessOptions;

const service =
  (roles: readonly Role[]): Program =>
  ({ zone, storeUrl, broken, streamBytes, deathsUntil, policyFile, onDying }, { name, seed, url }) => ({
    name,
    program: "test/fleet/faults/environment/service.ts",
    parameters: (incarnation): ServiceArguments => ({
      roles,
      seed: seed + incarnation,
      broken,
      streamBytes,
      deathsUntil,
    }),
    env: {
      FLEET_URL: url,
      FLEET_STORE: storeUrl,
      FLEET_POLICY: policyFile,
      FLEET_AGENT_TYPES: [WORKER, HEALTHY_TYPE, HIRED].join(),
      FLEET_OPS_PORT: "0",
      FLEET_LOG_LEVEL: "warn",
    },
    logFile: join(zone.logs, `${name}.log`),
    onDying,
  });

const crew = <A extends CrewArguments>(
  { zone, onProgress, onDying }: Place,
  { name, seed, url }: { readonly name: string; readonly seed: number; readonly url: string },
  own: {
    readonly program: string;
    readonly further: Omit<A, keyof CrewArguments>;
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
    historyFolder: zone.history,
    spoolFolder: join(zone.data, "spool"),
    ...own.further,
  }),
  env: {},
  logFile: join(zone.logs, `${name}.log`),
  onMessage: (message) => {
    if ((message as Partial<Progress>).done !== undefined) onProgress(message as Progress);
    else own.onMessage?.(message);
  },
  onDying,
});

const agentProcess =
  (beganAt: number): Program =>
  (o, its) =>
    crew<AgentsArguments>(o, its, {
      program: "test/fleet/faults/agents/agents.ts",
      further: { agents: AGENTS_EACH, beganAt },
    });

const takerProcess: Program = (o, its) =>
  crew<TakersArguments>(o, its, {
    program: "test/fleet/faults/agents/takers.ts",
    further: { deathsUntil: o.deathsUntil, firstCheckpointMs: POLICY.defaults.first_checkpoint_ms },
  });

const workerProcess =
  (hurt: (name: string, wish: DamageWish["damage"]) => Promise<void>): Program =>
  (o, its) =>
    crew<WorkersArguments>(o, its, {
      program: "test/fleet/faults/workers/workers.ts",
      further: { workers: WORKERS_EACH, deathsUntil: o.deathsUntil },
      onMessage: (message) => void hurt(its.name, (message as DamageWish).damage),
    });

const officeProcess =
  (has: Pick<OfficeArguments, "canDamage" | "hasRunner">, started: Set<string>): Program =>
  (o, its) =>
    crew<OfficeArguments>(o, its, {
      program: "test/fleet/faults/workers/office.ts",
      further: { healthy: HEALTHY, open: 2 * WORKERS_EACH, ...has },
      onMessage: (message) => started.add((message as Started).started),
    });

const HIRED_AT_ONCE = 3;

/** With its agents' program, which it starts anew for each task. */
const runnerProcess: Program = (o, its) => {
  const { zone, deathsUntil } = o;
  const folder = join(zone.data, "runner");
  const own: HiredArguments = { seed: its.seed, historyFolder: zone.history, deathsUntil };
  const command = [process.execPath, join(projectRoot, HIRED_PROGRAM), JSON.stringify(own)];
  const agents = { [HIRED]: { command, heartbeats: false, max_agents: HIRED_AT_ONCE } };
  const settings = join(zone.root, "runner.json");
  writeFileSync(settings, JSON.stringify({ agents, max_agents: HIRED_AT_ONCE, grace_ms: 5_000 }));
  const { env, ...rest } = crew<CrewArguments>(o, its, { program: RUNNER_PROGRAM, further: {} });
  return {
    ...rest,
    env: {
      ...env,
      FLEET_URL: its.url,
      FLEET_RUNNER_CONFIG: settings,
      FLEET_RUNNER_DIR: folder,
      FLEET_RUNNER_NAME: its.name,
      FLEET_SPOOL_DIR: join(zone.data, "spool"),
      FLEET_OPS_PORT: "0",
      FLEET_LOG_LEVEL: "warn",
    },
  };
};
