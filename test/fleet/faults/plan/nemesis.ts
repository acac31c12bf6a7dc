/** Carries out the plan: strikes when a fault's time comes, undoes it when its time is over, and keeps a log of both with times. */
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { FoundationdbControl } from "../../../harness/stores/foundationdb.ts";
import type { FaultFleet } from "../environment/fleet.ts";
import type { SupervisedProcess } from "../environment/process.ts";
import type { Weather } from "../environment/proxy.ts";
import type { StoreMode } from "../environment/store-faults.ts";
import type { Zone } from "../environment/zone.ts";
import type { Fault, FaultKind } from "./plan.ts";

export interface Battlefield {
  readonly fleet: FaultFleet;
  readonly zone: Zone;
  readonly smallDisk: boolean;
  readonly fdbserver: FoundationdbControl | undefined;
  /** One JSON line for every beginning and end. */
  readonly faultLog: string;
}

/** What can be struck here. */
export function targetsOf({
  fleet,
  smallDisk,
  fdbserver,
}: Battlefield): Partial<Record<FaultKind, string[]>> {
  const services = fleet.services.map(({ name }) => name);
  const agents = [...fleet.agents, ...fleet.takers, ...fleet.workers].map(({ name }) => name);
  const connections = [...fleet.proxies.keys()];
  const server = fdbserver === undefined ? [] : ["fdbserver"];
  return {
    kill_service: services,
    pause_service: services,
    kill_agents: agents,
    pause_agents: agents,
    kill_nats: ["nats"],
    pause_nats: ["nats"],
    cut_connections: connections,
    refuse_connections: connections,
    delay_bytes: connections,
    trickle_bytes: connections,
    half_open: connections,
    store_away: [...services, "all"],
    store_hangs: [...services, "all"],
    commit_unknown: services,
    disk_full: smallDisk ? ["disk"] : [],
    kill_fdbserver: server,
    pause_fdbserver: server,
  };
}

/** Begins a fault and returns how it ends. */
type Strike = (field: Battlefield, fault: Fault) => () => void | Promise<void>;

const named = (processes: readonly SupervisedProcess[], name: string): SupervisedProcess[] =>
  processes.filter((one) => name === "all" || one.name === name);

const nothing = (): void => {};

const everyProcess = ({ services, agents, takers, workers }: FaultFleet): SupervisedProcess[] => [
  ...services,
  ...agents,
  ...takers,
  ...workers,
];

const kill: Strike = ({ fleet }, { target, lastsMs }) => {
  for (const one of named(everyProcess(fleet), target)) one.kill(lastsMs);
  return nothing;
};

const pause: Strike = ({ fleet }, { target }) => {
  const struck = named(everyProcess(fleet), target);
  for (const one of struck) one.pause();
  return () => {
    for (const one of struck) one.resume();
  };
};

const storeMode =
  (mode: (fault: Fault) => StoreMode): Strike =>
  ({ fleet }, fault) => {
    const struck = named(fleet.services, fault.target);
    for (const one of struck) one.send(mode(fault));
    return () => {
      for (const one of struck) one.send({ kind: "sound" } satisfies StoreMode);
    };
  };

const weather =
  (choose: (fault: Fault) => Weather): Strike =>
  ({ fleet }, fault) => {
    const proxy = fleet.proxies.get(fault.target)!;
    proxy.set(choose(fault));
    return () => {
      proxy.set({ kind: "clear" });
    };
  };

const STRIKES: Readonly<Record<FaultKind, Strike>> = {
  kill_service: kill,
  pause_service: pause,
  kill_agents: kill,
  pause_agents: pause,
  kill_nats: ({ fleet }, { lastsMs }) => {
    fleet.nats.kill(lastsMs);
    return nothing;
  },
  pause_nats: ({ fleet }) => {
    fleet.nats.pause();
    return () => fleet.nats.resume();
  },
  cut_connections: ({ fleet }, { target }) => {
    fleet.proxies.get(target)!.cut();
    return nothing;
  },
  refuse_connections: ({ fleet }, { target }) => {
    const proxy = fleet.proxies.get(target)!;
    proxy.set({ kind: "refusing" });
    proxy.cut();
    return () => proxy.set({ kind: "clear" });
  },
  delay_bytes: weather(({ chance }) => ({ kind: "delaying", ms: 20 + 300 * chance, jitterMs: 200 * chance })),
  trickle_bytes: weather(({ chance }) => ({
    kind: "trickling",
    bytes: 1 + Math.floor(300 * chance),
    everyMs: 3,
  })),
  half_open: ({ fleet }, { target, chance }) => {
    const proxy = fleet.proxies.get(target)!;
    proxy.set({ kind: "holding", direction: chance < 0.4 ? "up" : chance < 0.8 ? "down" : "both" });
    return () => {
      // Either what was held back arrives late, or it never does.
      if (Math.floor(chance * 1_000) % 2 === 0) proxy.cut();
      proxy.set({ kind: "clear" });
    };
  },
  store_away: storeMode(() => ({ kind: "away" })),
  store_hangs: storeMode(() => ({ kind: "hanging" })),
  commit_unknown: storeMode(({ chance }) => ({ kind: "unknown", share: 0.1 + 0.5 * chance })),
  disk_full: ({ zone }) => {
    zone.fill();
    return () => zone.free();
  },
  kill_fdbserver: ({ fdbserver }, { lastsMs }) => {
    const down = fdbserver!.kill().then(() => sleep(lastsMs));
    return () => down.then(() => fdbserver!.restart());
  },
  pause_fdbserver: ({ fdbserver }) => {
    fdbserver!.pause();
    return () => fdbserver!.continue();
  },
};

export class Nemesis {
  readonly #field: Battlefield;
  readonly #began = new Map<FaultKind, number>();
  readonly #kills: number[] = [];
  readonly #endings = new Set<Promise<void>>();
  /** One fault at a time for each target of a kind that has a state: the end of one must not end the other. */
  readonly #struck = new Set<string>();
  #startedAt = 0;

  constructor(field: Battlefield) {
    this.#field = field;
  }

  /** Faults that really began, by kind. */
  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#began);
  }

  /** When something was killed, by the wall clock. */
  get kills(): readonly number[] {
    return this.#kills;
  }

  get total(): number {
    return [...this.#began.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Resolves at the end of the plan, when the last fault is undone. */
  async run(plan: readonly Fault[], durationMs: number, signal: AbortSignal): Promise<void> {
    this.#startedAt = performance.now();
    const until = (ms: number): Promise<void> =>
      sleep(Math.max(0, this.#startedAt + ms - performance.now()), undefined, { signal }).catch(nothing);
    for (const fault of plan) {
      await until(fault.atMs);
      if (signal.aborted) break;
      this.#strike(fault, signal);
    }
    await until(durationMs);
    await Promise.all(this.#endings);
  }

  #strike(fault: Fault, signal: AbortSignal): void {
    const { kind, target, lastsMs } = fault;
    const place = placeOf(fault);
    if (this.#struck.has(place)) {
      this.#say({ ...fault, what: "skipped" });
      return;
    }
    if (kind.startsWith("kill_")) this.#kills.push(Date.now());
    const end = STRIKES[kind](this.#field, fault);
    this.#struck.add(place);
    this.#began.set(kind, (this.#began.get(kind) ?? 0) + 1);
    this.#say({ ...fault, what: "begins" });
    const ending = sleep(lastsMs, undefined, { signal })
      .catch(nothing)
      .then(end)
      .then(() => {
        this.#struck.delete(place);
        this.#say({ kind, target, what: "ends" });
      })
      .finally(() => this.#endings.delete(ending));
    this.#endings.add(ending);
  }

  #say(fact: object): void {
    const ms = Math.round(performance.now() - this.#startedAt);
    appendFileSync(this.#field.faultLog, `${JSON.stringify({ ms, ...fact })}\n`);
  }
}

const STORE_FAULTS: readonly FaultKind[] = ["store_away", "store_hangs", "commit_unknown"];
const WEATHERS: readonly FaultKind[] = ["refuse_connections", "delay_bytes", "trickle_bytes", "half_open"];

function placeOf({ kind, target }: Fault): string {
  if (STORE_FAULTS.includes(kind)) return "stores";
  if (WEATHERS.includes(kind)) return `weather of ${target}`;
  if (kind.endsWith("_fdbserver")) return "fdbserver";
  return `${kind} ${target}`;
}
