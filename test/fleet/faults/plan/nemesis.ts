/** Executes the plan: it begins and ends each fault in time, and logs both. */
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { FoundationdbCluster, FoundationdbControl } from "../../../harness/stores/foundationdb.ts";
import { instant } from "../agents/history.ts";
import type { NetworkMode } from "../environment/bus/proxy.ts";
import type { SupervisedNats } from "../environment/bus/supervised-nats.ts";
import type { FaultFleet } from "../environment/fleet.ts";
import type { SupervisedProcess } from "../environment/process.ts";
import type { RoundFolders } from "../environment/round-folders.ts";
import type { StoreMode } from "../environment/store-faults.ts";
import type { FaultPeriod } from "./availability.ts";
import type { Fault, FaultKind } from "./plan.ts";

export interface FaultEnvironment {
  readonly fleet: FaultFleet;
  readonly folders: RoundFolders;
  readonly smallDisk: boolean;
  /** A single server. */
  readonly fdbserver: FoundationdbControl | undefined;
  readonly fdbCluster: FoundationdbCluster | undefined;
  /** The file with one JSON line for every beginning and end of a fault. */
  readonly faultLog: string;
}

/** The possible targets of each kind of fault. */
export function targetsOf({
  fleet,
  smallDisk,
  fdbserver,
  fdbCluster,
}: FaultEnvironment): Partial<Record<FaultKind, string[]>> {
  const services = fleet.services.map(({ name }) => name);
  const agents = [...fleet.agents, ...fleet.takers, ...fleet.workers].map(({ name }) => name);
  const connections = [...fleet.links.keys()];
  const server = fdbserver === undefined ? [] : ["fdbserver"];
  const zones = [...(fdbCluster?.zones.keys() ?? [])];
  const { isCluster, all } = fleet.bus;
  const [single, leader, any] = isCluster
    ? [[], ["the leader of a stream"], all.map(({ name }) => name)]
    : [["nats"], [], []];
  return {
    kill_service: services,
    pause_service: services,
    kill_agents: agents,
    pause_agents: agents,
    kill_nats: single,
    pause_nats: single,
    kill_bus_leader: leader,
    pause_bus_leader: leader,
    kill_bus_server: any,
    pause_bus_server: any,
    cut_connections: connections,
    refuse_connections: connections,
    delay_bytes: connections,
    trickle_bytes: connections,
    half_open: connections,
    store_unavailable: [...services, "all"],
    store_hangs: [...services, "all"],
    commit_unknown: services,
    disk_full: smallDisk ? ["disk"] : [],
    kill_fdbserver: server,
    pause_fdbserver: server,
    kill_fdb_zone: zones,
    pause_fdb_zone: zones,
  };
}

/** Begins a fault and returns the function that ends it. */
type StartFault = (environment: FaultEnvironment, fault: Fault) => () => void | Promise<void>;

const named = (processes: readonly SupervisedProcess[], name: string): SupervisedProcess[] =>
  processes.filter((one) => name === "all" || one.name === name);

const nothing = (): void => {};

const everyProcess = ({ services, agents, takers, workers }: FaultFleet): SupervisedProcess[] => [
  ...services,
  ...agents,
  ...takers,
  ...workers,
];

const kill: StartFault = ({ fleet }, { target, lastsMs }) => {
  for (const one of named(everyProcess(fleet), target)) one.kill(lastsMs);
  return nothing;
};

const pause: StartFault = ({ fleet }, { target }) => {
  const targets = named(everyProcess(fleet), target);
  for (const one of targets) one.pause();
  return () => {
    for (const one of targets) one.resume();
  };
};

const storeMode =
  (mode: (fault: Fault) => StoreMode): StartFault =>
  ({ fleet }, fault) => {
    const targets = named(fleet.services, fault.target);
    for (const one of targets) one.send(mode(fault));
    return () => {
      for (const one of targets) one.send({ kind: "normal" } satisfies StoreMode);
    };
  };

const networkMode =
  (choose: (fault: Fault) => NetworkMode): StartFault =>
  ({ fleet }, fault) => {
    const links = fleet.links.get(fault.target)!;
    links.set(choose(fault));
    return () => {
      links.set({ kind: "clear" });
    };
  };

/** The time in which a server of a cluster gets the messages that it has missed. One server at a time has a fault. */
const SETTLED_MS = 30_000;

const busServer =
  (choose: (environment: FaultEnvironment, fault: Fault) => SupervisedNats | Promise<SupervisedNats>) =>
  (begin: (server: SupervisedNats, fault: Fault) => void): StartFault =>
  (environment, fault) => {
    const begun = Promise.resolve(choose(environment, fault)).then((server) => {
      begin(server, fault);
      return server;
    });
    return async () => {
      (await begun).resume();
      await environment.fleet.bus.settled(SETTLED_MS);
    };
  };

const leaderServer = busServer(({ fleet }, { chance }) => fleet.bus.leader(chance));
const anyServer = busServer(({ fleet }, { target }) => fleet.bus.named(target));

const FAULTS: Readonly<Record<FaultKind, StartFault>> = {
  kill_service: kill,
  pause_service: pause,
  kill_agents: kill,
  pause_agents: pause,
  kill_nats: ({ fleet }, { target, lastsMs }) => {
    fleet.bus.named(target).kill(lastsMs);
    return nothing;
  },
  pause_nats: ({ fleet }, { target }) => {
    const server = fleet.bus.named(target);
    server.pause();
    return () => server.resume();
  },
  kill_bus_leader: leaderServer((server, { lastsMs }) => server.kill(lastsMs)),
  pause_bus_leader: leaderServer((server) => server.pause()),
  kill_bus_server: anyServer((server, { lastsMs }) => server.kill(lastsMs)),
  pause_bus_server: anyServer((server) => server.pause()),
  cut_connections: ({ fleet }, { target }) => {
    fleet.links.get(target)!.cut();
    return nothing;
  },
  refuse_connections: ({ fleet }, { target }) => {
    const links = fleet.links.get(target)!;
    links.set({ kind: "refusing" });
    links.cut();
    return () => links.set({ kind: "clear" });
  },
  delay_bytes: networkMode(({ chance }) => ({
    kind: "delaying",
    ms: 20 + 300 * chance,
    jitterMs: 200 * chance,
  })),
  trickle_bytes: networkMode(({ chance }) => ({
    kind: "trickling",
    bytes: 1 + Math.floor(300 * chance),
    everyMs: 3,
  })),
  half_open: ({ fleet }, { target, chance }) => {
    const links = fleet.links.get(target)!;
    links.set({ kind: "holding", direction: chance < 0.4 ? "up" : chance < 0.8 ? "down" : "both" });
    return () => {
      // The held bytes arrive late, or are lost with their connection.
      if (Math.floor(chance * 1_000) % 2 === 0) links.cut();
      links.set({ kind: "clear" });
    };
  },
  store_unavailable: storeMode(() => ({ kind: "unavailable" })),
  store_hangs: storeMode(() => ({ kind: "hanging" })),
  commit_unknown: storeMode(({ chance }) => ({ kind: "unknown", share: 0.1 + 0.5 * chance })),
  disk_full: ({ folders }) => {
    folders.fill();
    return () => folders.free();
  },
  kill_fdbserver: ({ fdbserver }, { lastsMs }) => {
    const down = fdbserver!.kill().then(() => sleep(lastsMs));
    return () => down.then(() => fdbserver!.restart());
  },
  pause_fdbserver: ({ fdbserver }) => {
    const paused = Promise.resolve(fdbserver!.pause());
    return () => paused.then(() => fdbserver!.continue());
  },
  kill_fdb_zone: ({ fdbCluster }, { target }) => {
    const zone = fdbCluster!.zones.get(target)!;
    const killed = zone.kill();
    return async () => {
      await killed;
      await zone.start();
      await fdbCluster!.settled();
    };
  },
  pause_fdb_zone: ({ fdbCluster }, { target }) => {
    const zone = fdbCluster!.zones.get(target)!;
    zone.pause();
    return async () => {
      zone.continue();
      await fdbCluster!.settled();
    };
  },
};

export class Nemesis {
  readonly #environment: FaultEnvironment;
  readonly #began = new Map<FaultKind, number>();
  readonly #kills: number[] = [];
  readonly #periods: FaultPeriod[] = [];
  readonly #endings = new Set<Promise<void>>();
  /** The scopes with an open fault. One scope has one fault at a time, because the end of one must not end another. */
  readonly #open = new Set<string>();
  #startedAt = 0;

  constructor(environment: FaultEnvironment) {
    this.#environment = environment;
  }

  /** The number of faults that began, by kind. */
  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#began);
  }

  /** The times of the kills, by the wall clock. */
  get kills(): readonly number[] {
    return this.#kills;
  }

  /** The faults that have ended, with their times. */
  get periods(): readonly FaultPeriod[] {
    return this.#periods;
  }

  get total(): number {
    return [...this.#began.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Resolves at the end of the plan, when all faults have ended. */
  async run(plan: readonly Fault[], durationMs: number, signal: AbortSignal): Promise<void> {
    this.#startedAt = performance.now();
    const until = (ms: number): Promise<void> =>
      sleep(Math.max(0, this.#startedAt + ms - performance.now()), undefined, { signal }).catch(nothing);
    for (const fault of plan) {
      await until(fault.atMs);
      if (signal.aborted) break;
      this.#begin(fault, signal);
    }
    await until(durationMs);
    await Promise.all(this.#endings);
  }

  #begin(fault: Fault, signal: AbortSignal): void {
    const { kind, target, lastsMs } = fault;
    const scope = scopeOf(fault);
    if (this.#open.has(scope)) {
      this.#log({ ...fault, what: "skipped" });
      return;
    }
    if (kind.startsWith("kill_")) this.#kills.push(Date.now());
    const begin = instant();
    const end = FAULTS[kind](this.#environment, fault);
    this.#open.add(scope);
    this.#began.set(kind, (this.#began.get(kind) ?? 0) + 1);
    this.#log({ ...fault, what: "begins" });
    const ending = sleep(lastsMs, undefined, { signal })
      .catch(nothing)
      .then(end)
      .then(() => {
        this.#open.delete(scope);
        this.#periods.push({ kind, begin, end: instant() });
        this.#log({ kind, target, what: "ends" });
      })
      .finally(() => this.#endings.delete(ending));
    this.#endings.add(ending);
  }

  #log(fact: object): void {
    const ms = Math.round(performance.now() - this.#startedAt);
    appendFileSync(this.#environment.faultLog, `${JSON.stringify({ ms, ...fact })}\n`);
  }
}

const STORE_FAULTS: readonly FaultKind[] = ["store_unavailable", "store_hangs", "commit_unknown"];
const NETWORK_FAULTS: readonly FaultKind[] = [
  "refuse_connections",
  "delay_bytes",
  "trickle_bytes",
  "half_open",
];

function scopeOf({ kind, target }: Fault): string {
  if (STORE_FAULTS.includes(kind)) return "stores";
  if (NETWORK_FAULTS.includes(kind)) return `network of ${target}`;
  if (kind.includes("_fdb")) return "servers of the store";
  if (kind.includes("_bus_")) return "servers of the bus";
  return `${kind} ${target}`;
}
