/** The plan for a demand: how many fleets, and how many processes each has. */
import { fleetStreams } from "../../shared/bus/streams/streams.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { STREAMS } from "../../shared/protocol/subjects.ts";
import type { Figures } from "./figures.ts";
import {
  type Demand,
  type LimitName,
  processesFor,
  type Rates,
  ratesOf,
  type Storage,
  storageOf,
  storeProcesses,
  useOf,
} from "./formulas.ts";
import { CHOICES, PUBLISHED } from "./limits.ts";

/** The processes of one fleet. */
export interface Processes {
  readonly writers: number;
  readonly readers: number;
  readonly coordinators: number;
  readonly watchdogs: number;
  readonly nats_servers: number;
  /** 0: the embedded store. */
  readonly foundationdb: number;
}

export interface Plan {
  readonly demand: Demand;
  /** `one machine`: `npm start`, without a spare. */
  readonly shape: "one machine" | "cluster";
  readonly fleets: number;
  /** Of all fleets together. */
  readonly rates: Rates;
  readonly storage: Storage;
  /** Of each fleet. */
  readonly processes: Processes;
  /** The limit that this demand would reach first in a single fleet, and its use there; 1 is the limit. */
  readonly first: { readonly limit: LimitName; readonly use: number };
  readonly partitions: { readonly queue: number; readonly outbox: number };
}

/** Up to this many agents and bytes, one machine is planned. */
const ONE_MACHINE = { agents: 100, bytes: 100e9 } as const;
const OF_FOUNDATIONDB: ReadonlySet<LimitName> = new Set(["store_processes", "store_bytes"]);
const SPARE = 2;
const QUORUM = 3;

const eventBytesMax = (): number => fleetStreams().find(({ name }) => name === STREAMS.events)?.maxBytes ?? 0;

export function planFor(figures: Figures, demand: Demand): Plan {
  const storage = storageOf(figures, demand, eventBytesMax());
  const isOneMachine = demand.agents <= ONE_MACHINE.agents && storage.store <= ONE_MACHINE.bytes;
  const use = Object.entries(useOf(figures, demand, storage)) as [LimitName, number][];
  const [limit, most] = use
    .filter(([name]) => !isOneMachine || !OF_FOUNDATIONDB.has(name))
    .reduce((first, one) => (one[1] > first[1] ? one : first));
  const fleets = Math.max(1, Math.ceil(most));
  const rates = ratesOf(figures, demand);
  return {
    demand,
    shape: isOneMachine ? "one machine" : "cluster",
    fleets,
    rates,
    // Each fleet has its own stream of events.
    storage: { ...storage, eventHours: storage.eventHours * fleets },
    processes: isOneMachine ? ONE_OF_EACH : processesOf(figures, demand, rates, storage, fleets),
    first: { limit, use: most },
    partitions: { queue: LIMITS.queue_partition_count, outbox: LIMITS.outbox_partition_count },
  };
}

const ONE_OF_EACH: Processes = {
  writers: 1,
  readers: 1,
  coordinators: 1,
  watchdogs: 1,
  nats_servers: 1,
  foundationdb: 0,
};

function processesOf(
  { times }: Figures,
  demand: Demand,
  rates: Rates,
  storage: Storage,
  fleets: number,
): Processes {
  const checkpoints = rates.checkpoints / fleets;
  const heartbeats = rates.heartbeats / fleets;
  const writers = Math.max(SPARE, processesFor(checkpoints, times.commit.writer));
  // Every reader hears all heartbeats.
  const readers = Math.max(
    SPARE,
    processesFor(checkpoints, times.commit.reader) + processesFor(heartbeats, times.heartbeat.reader),
  );
  const listeners = readers + SPARE;
  const natsTime =
    processesFor(checkpoints, times.commit.nats_server) +
    processesFor((heartbeats * listeners) / 2, times.heartbeat.nats_server);
  const connections = demand.agents / fleets / (PUBLISHED.nats_connections.value * CHOICES.use.value);
  return {
    writers,
    readers,
    coordinators: SPARE,
    watchdogs: SPARE,
    nats_servers: Math.max(QUORUM, natsTime, Math.ceil(connections)),
    foundationdb: storeProcesses({ keys: rates.keys / fleets }, { disk: storage.disk / fleets }, demand),
  };
}
