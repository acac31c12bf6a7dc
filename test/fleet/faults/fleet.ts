/**
 * The fleet under test: a nats-server, services and agents as processes of their own, each connected to the bus through a proxy of its
 * own. `alone` is one process with writer and reader, as the standalone fleet has them; `several` is two of each on one store.
 */
import { join } from "node:path";
import { seededRandom } from "../../load/workload.ts";
import type { AgentsArguments, Progress } from "./agents.ts";
import type { BrokenName } from "./broken.ts";
import { instant } from "./history.ts";
import { type SupervisedNats, superviseNats } from "./nats.ts";
import { SupervisedProcess } from "./process.ts";
import { type NetworkProxy, startProxy } from "./proxy.ts";
import type { Role, ServiceArguments } from "./service.ts";
import type { Zone } from "./zone.ts";

export const SHAPES = {
  alone: [["both", ["writer", "reader"]]],
  several: [
    ["writer-1", ["writer"]],
    ["writer-2", ["writer"]],
    ["reader-1", ["reader"]],
    ["reader-2", ["reader"]],
  ],
} as const satisfies Record<string, readonly (readonly [string, readonly Role[]])[]>;
export type Shape = keyof typeof SHAPES;

export interface FleetOptions {
  readonly shape: Shape;
  readonly zone: Zone;
  readonly storeUrl: string;
  readonly seed: number;
  readonly broken: BrokenName | null;
  readonly onProgress: (progress: Progress) => void;
}

export interface FaultFleet {
  readonly nats: SupervisedNats;
  readonly services: readonly SupervisedProcess[];
  readonly agents: readonly SupervisedProcess[];
  /** By the name of the process whose connection it carries. */
  readonly proxies: ReadonlyMap<string, NetworkProxy>;
  /** For the end of the program: kills everything at once. */
  destroy(): void;
}

const AGENT_PROCESSES = 2;
const AGENTS_EACH = 4;
const READY_MS = 60_000;

/** Throws when it does not come up; what was started by then is destroyed. */
export async function startFaultFleet(o: FleetOptions): Promise<FaultFleet> {
  const nats = await superviseNats(join(o.zone.data, "nats"));
  const proxies = new Map<string, NetworkProxy>();
  const processes: SupervisedProcess[] = [];
  const destroy = (): void => {
    for (const one of processes) one.destroy();
    nats.resume();
    nats.kill(0);
  };
  const proxied = async (name: string, seed: number): Promise<string> => {
    const proxy = await startProxy({ targetPort: nats.port, random: seededRandom(seed) });
    proxies.set(name, proxy);
    return `nats://127.0.0.1:${proxy.port}`;
  };
  const started = (one: SupervisedProcess): SupervisedProcess => {
    processes.push(one);
    return one;
  };
  try {
    const services: SupervisedProcess[] = [];
    for (const [i, [name, roles]] of SHAPES[o.shape].entries()) {
      const seed = o.seed + 100 + i;
      services.push(
        started(
          service(
            { ...o, streamBytes: nats.storeBytesMax },
            { name, roles, seed },
            await proxied(name, seed),
          ),
        ),
      );
    }
    await allReady(services);
    const agents: SupervisedProcess[] = [];
    const beganAt = instant();
    for (let i = 1; i <= AGENT_PROCESSES; i += 1) {
      const seed = o.seed + 1_000 * i;
      const name = `agents-${i}`;
      agents.push(started(agentProcess(o, { name, seed, beganAt }, await proxied(name, seed))));
    }
    await allReady(agents);
    return { nats, services, agents, proxies, destroy };
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

function service(
  o: FleetOptions & { readonly streamBytes: number },
  { name, roles, seed }: { name: string; roles: readonly Role[]; seed: number },
  url: string,
): SupervisedProcess {
  return new SupervisedProcess({
    name,
    program: "test/fleet/faults/service.ts",
    parameters: (incarnation): ServiceArguments => ({
      roles,
      seed: seed + incarnation,
      broken: o.broken,
      streamBytes: o.streamBytes,
    }),
    env: { FLEET_URL: url, FLEET_STORE: o.storeUrl, FLEET_OPS_PORT: "0", FLEET_LOG_LEVEL: "warn" },
    logFile: join(o.zone.logs, `${name}.log`),
  });
}

function agentProcess(
  o: FleetOptions,
  { name, seed, beganAt }: { name: string; seed: number; beganAt: number },
  url: string,
): SupervisedProcess {
  return new SupervisedProcess({
    name,
    program: "test/fleet/faults/agents.ts",
    parameters: (incarnation): AgentsArguments => ({
      name,
      incarnation,
      seed: seed + 17 * incarnation,
      url,
      historyFolder: o.zone.history,
      spoolFolder: join(o.zone.data, "spool"),
      agents: AGENTS_EACH,
      beganAt,
    }),
    env: {},
    logFile: join(o.zone.logs, `${name}.log`),
    onMessage: (message) => o.onProgress(message as Progress),
  });
}
