/**
 * The fleet under test: a nats-server, services and agents as processes of their own, each connected to the bus through a proxy of its
 * own. `alone` is one process with writer, reader and coordinator, as the standalone fleet has them; `several` is two of each on one
 * store.
 */
import { join } from "node:path";
import { seededRandom } from "../../load/workload.ts";
import type { AgentsArguments } from "./agents.ts";
import type { BrokenName } from "./broken.ts";
import type { CrewArguments, Progress } from "./crew.ts";
import { instant } from "./history.ts";
import { type SupervisedNats, superviseNats } from "./nats.ts";
import { POLICY, writePolicy } from "./policy.ts";
import { type ProcessOptions, SupervisedProcess } from "./process.ts";
import { type NetworkProxy, startProxy } from "./proxy.ts";
import type { Role, ServiceArguments } from "./service.ts";
import type { TakersArguments } from "./takers.ts";
import type { Zone } from "./zone.ts";

export const SHAPES = {
  alone: [["all-in-one", ["writer", "reader", "coordinator"]]],
  several: [
    ["writer-1", ["writer"]],
    ["writer-2", ["writer"]],
    ["reader-1", ["reader"]],
    ["reader-2", ["reader"]],
    ["coordinator-1", ["coordinator"]],
    ["coordinator-2", ["coordinator"]],
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
  /** The moments at which processes chose to die. */
  readonly deaths: readonly Death[];
  /** By the name of the process whose connection it carries. */
  readonly proxies: ReadonlyMap<string, NetworkProxy>;
  /** For the end of the program: kills everything at once. */
  destroy(): void;
}

/** `at`: of the wall clock, as the audit trail has it. */
export interface Death {
  readonly moment: string;
  readonly at: number;
}

const AGENTS_EACH = 4;
const READY_MS = 60_000;

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
  const deathsUntil = instant() + 1_000 * o.deathsMs;
  const policyFile = writePolicy(join(o.zone.root, "policy.json"));
  const place: Place = {
    ...{ ...o, deathsUntil, policyFile, streamBytes: nats.storeBytesMax },
    onDying: (moment) => deaths.push({ moment, at: Date.now() }),
  };
  const start = async (name: string, seed: number, program: Program): Promise<SupervisedProcess> => {
    const proxy = await startProxy({ targetPort: nats.port, random: seededRandom(seed) });
    proxies.set(name, proxy);
    const url = `nats://127.0.0.1:${proxy.port}`;
    const one = new SupervisedProcess(program(place, { name, seed, url }));
    processes.push(one);
    return one;
  };
  const startCrew = (role: string, seed: number, program: Program): Promise<SupervisedProcess[]> =>
    Promise.all([1, 2].map((i) => start(`${role}-${i}`, seed + 1_000 * i, program)));
  try {
    const services = await Promise.all(
      SHAPES[o.shape].map(([name, roles], i) => start(name, o.seed + 100 + i, service(roles))),
    );
    await allReady(services);
    const takers = await startCrew("takers", o.seed + 5_000, takerProcess);
    await allReady(takers);
    const agents = await startCrew("agents", o.seed, agentProcess(instant()));
    await allReady(agents);
    return { nats, services, agents, takers, deaths, proxies, destroy };
  } catch (error) {
    destroy();
    throw error;
  }
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
    program: "test/fleet/faults/service.ts",
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
      FLEET_OPS_PORT: "0",
      FLEET_LOG_LEVEL: "warn",
    },
    logFile: join(zone.logs, `${name}.log`),
    onDying,
  });

const crew = <A extends CrewArguments>(
  { zone, onProgress, onDying }: Place,
  { name, seed, url }: { readonly name: string; readonly seed: number; readonly url: string },
  own: { readonly program: string; readonly further: Omit<A, keyof CrewArguments> },
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
  onMessage: (message) => onProgress(message as Progress),
  onDying,
});

const agentProcess =
  (beganAt: number): Program =>
  (o, its) =>
    crew<AgentsArguments>(o, its, {
      program: "test/fleet/faults/agents.ts",
      further: { agents: AGENTS_EACH, beganAt },
    });

const takerProcess: Program = (o, its) =>
  crew<TakersArguments>(o, its, {
    program: "test/fleet/faults/takers.ts",
    further: { deathsUntil: o.deathsUntil, firstCheckpointMs: POLICY.defaults.first_checkpoint_ms },
  });
