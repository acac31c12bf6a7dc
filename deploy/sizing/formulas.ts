/** The formulas of deploy/SIZING.md: from agents and kept checkpoints to rates, bytes and limits. Pure functions of the measured figures. */
import { LIMITS } from "../../shared/protocol/limits.ts";
import { STREAMS } from "../../shared/protocol/subjects.ts";
import type { CommandCost, Counts, Figures } from "./figures.ts";
import { CHOICES, PUBLISHED } from "./limits.ts";

export interface Demand {
  readonly agents: number;
  /** The checkpoints that the store keeps. */
  readonly checkpoints: number;
  readonly bytes: number;
  readonly perHour: number;
  readonly heartbeatSeconds: number;
  readonly silenceSeconds: number;
  readonly copies: number;
}

export interface Rates {
  /** At the peak. */
  readonly checkpoints: number;
  readonly commits: number;
  readonly keys: number;
  readonly events: number;
  readonly heartbeats: number;
  /** Renewed leases of agents, one key each. */
  readonly leases: number;
}

const HOUR_S = 3_600;
const US_PER_S = 1_000_000;
/** Watchdogs write up to this many leases in one transaction. */
const LEASES_OF_TRANSACTION = 400;
/** Rows that leave the store by themselves; they are counted for the time that they stay. */
const TEMPORARY: ReadonlySet<string> = new Set(["idem", "expiry", "outbox"]);

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

export const writesOf = ({ transactions }: CommandCost): number =>
  sum(Object.values(transactions).map(({ writes }) => writes));

const keysOf = ({ transactions }: CommandCost): number =>
  sum(Object.values(transactions).map(({ keys }) => keys));

export const eventsOf = ({ messages }: CommandCost): number =>
  sum(Object.values(messages).map((one) => one.messages));

export const streamBytesOf = ({ messages }: CommandCost, stream: string): number =>
  messages[stream]?.bytes ?? 0;

/** Bytes of rows that stay, or of those that leave by themselves. */
export function bytesOf({ stored }: CommandCost, kind: "kept" | "temporary"): number {
  const rows = Object.entries(stored).filter(([family]) => TEMPORARY.has(family) === (kind === "temporary"));
  return sum(rows.map(([, { bytes }]) => bytes));
}

/** Rows of the search index. The indexer writes those of many checkpoints in one transaction. */
const INDEXED: ReadonlySet<string> = new Set(["ix", "text", "posted"]);

export const indexRowsOf = ({ stored }: CommandCost): number =>
  sum(Object.entries(stored).flatMap(([family, { rows }]) => (INDEXED.has(family) ? [rows] : [])));

/** Of each entry in the tiles of the audit log: its hash, and its part of the hashes of 256 entries. */
const TILE_BYTES = 32 * (1 + 1 / 256);

/** The bytes that one kept checkpoint takes: those of its creation and finalization, and more or less for another length. */
export function bytesPerCheckpoint({ costs, bodies }: Counts, bytes: number): number {
  const [small, large] = [costs.create, costs.create_large].map((cost) => bytesOf(cost, "kept")) as [
    number,
    number,
  ];
  const perByte = (large - small) / (bodies.create_large - bodies.create);
  const entries = [costs.create, costs.finalize].reduce(
    (sum, { stored }) => sum + (stored.audit?.rows ?? 0),
    0,
  );
  return (
    Math.max(0, small + perByte * (bytes - bodies.create)) +
    bytesOf(costs.finalize, "kept") +
    entries * TILE_BYTES
  );
}

/** At the peak, for each second. */
export function ratesOf({ counts }: Figures, demand: Demand): Rates {
  const { costs } = counts;
  const checkpoints = (demand.agents * demand.perHour * CHOICES.peak.value) / HOUR_S;
  // Each agent's lease is renewed when a third of it is left.
  const leases = demand.agents / ((demand.silenceSeconds * 2) / 3);
  const each = (of: (cost: CommandCost) => number): number =>
    of(costs.create) +
    of(costs.finalize) +
    CHOICES.handoffs.value * of(costs.handoff) +
    CHOICES.recoveries.value * of(costs.recovery);
  return {
    checkpoints,
    commits: checkpoints * each(writesOf) + leases / LEASES_OF_TRANSACTION,
    // The relay clears each event that it has published.
    keys: checkpoints * each((cost) => keysOf(cost) + indexRowsOf(cost) + eventsOf(cost)) + leases,
    events: checkpoints * each(eventsOf),
    heartbeats: demand.agents / demand.heartbeatSeconds,
    leases,
  };
}

export interface Storage {
  /** Keys and values, without copies. */
  readonly store: number;
  /** On all disks of FoundationDB. */
  readonly disk: number;
  /** The hours after which the stream of events drops its oldest, by its size. */
  readonly eventHours: number;
}

export function storageOf({ counts }: Figures, demand: Demand, eventBytesMax: number): Storage {
  const { costs } = counts;
  const average = (demand.agents * demand.perHour) / HOUR_S;
  const keptSeconds = LIMITS.idempotency_ms / 1_000;
  const temporary =
    average * keptSeconds * (bytesOf(costs.create, "temporary") + bytesOf(costs.finalize, "temporary"));
  const store =
    demand.checkpoints * bytesPerCheckpoint(counts, demand.bytes) +
    demand.agents * bytesOf(costs.take, "kept") +
    temporary;
  const eventBytes =
    average *
    (streamBytesOf(costs.create, STREAMS.events) +
      streamBytesOf(costs.finalize, STREAMS.events) +
      CHOICES.handoffs.value * streamBytesOf(costs.handoff, STREAMS.events));
  return {
    store,
    disk: store * demand.copies * CHOICES.disk_overhead.value,
    eventHours: eventBytesMax / eventBytes / HOUR_S,
  };
}

export const LIMIT_NAMES = [
  "watchdog_time",
  "watchdog_memory",
  "index",
  "event_stream",
  "store_processes",
  "store_bytes",
] as const;
export type LimitName = (typeof LIMIT_NAMES)[number];

/** The use of each limit of one fleet; 1 is the limit. */
export function useOf(
  figures: Figures,
  demand: Demand,
  storage: Storage,
): Readonly<Record<LimitName, number>> {
  const { counts, times } = figures;
  const rates = ratesOf(figures, demand);
  const core = US_PER_S * CHOICES.use.value;
  return {
    watchdog_time: (rates.heartbeats * times.heartbeat.watchdog) / core,
    watchdog_memory: (demand.agents * counts.memory.watchdog_bytes_per_agent) / CHOICES.heap_bytes.value,
    index: (rates.checkpoints * times.commit.reader) / core,
    event_stream: (rates.checkpoints * times.commit.nats_server) / core,
    store_processes: storeProcesses(rates, storage, demand) / PUBLISHED.fdb_processes.value,
    store_bytes: storage.store / PUBLISHED.fdb_bytes.value,
  };
}

/** The storage processes, by the keys that each writes and by their disks; and the others. */
export function storeProcesses(
  { keys }: Pick<Rates, "keys">,
  { disk }: Pick<Storage, "disk">,
  { copies }: Pick<Demand, "copies">,
): number {
  const byWrites = (keys * copies) / (PUBLISHED.fdb_writes.value * CHOICES.use.value);
  const byDisk = disk / (CHOICES.storage_bytes.value * CHOICES.use.value);
  const storage = Math.max(copies, Math.ceil(Math.max(byWrites, byDisk)));
  return storage + Math.max(3, Math.ceil(storage * CHOICES.other_processes.value));
}

/** Processes for work that takes `us` of processor time and comes `perSecond`. */
export const processesFor = (perSecond: number, us: number): number =>
  Math.ceil((perSecond * us) / (US_PER_S * CHOICES.use.value));
