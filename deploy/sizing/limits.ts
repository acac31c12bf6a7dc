/** What limits a fleet, as data: published figures of FoundationDB and NATS with their sources, and the choices of these formulas. */

export interface PublicFigure {
  readonly what: string;
  readonly value: number;
  readonly text: string;
  readonly source: string;
}

const LIMITATIONS = "https://apple.github.io/foundationdb/known-limitations.html";
const PERFORMANCE = "https://apple.github.io/foundationdb/performance.html";
const NATS_CONFIGURATION = "https://docs.nats.io/running-a-nats-service/configuration";
const NATS_BENCH = "https://docs.nats.io/using-nats/nats-tools/nats_cli/natsbench";

/** None of these was measured here: no cluster of FoundationDB or of NATS of these sizes was at hand. */
export const PUBLISHED = {
  fdb_transaction_bytes: {
    what: "FoundationDB: size of a transaction",
    value: 10_000_000,
    text: "10 MB, and 1 MB is advised; Fleet's own limit is 1 MB",
    source: LIMITATIONS,
  },
  fdb_transaction_ms: {
    what: "FoundationDB: age of a transaction",
    value: 5_000,
    text: "5 s from its first read; Fleet's own limit is 4 s",
    source: LIMITATIONS,
  },
  fdb_processes: {
    what: "FoundationDB: processes of a cluster",
    value: 500,
    text: "tested up to 500",
    source: LIMITATIONS,
  },
  fdb_bytes: {
    what: "FoundationDB: keys and values of a cluster",
    value: 100e12,
    text: "tested up to 100 TB, before copies and overhead",
    source: LIMITATIONS,
  },
  fdb_hot_reads: {
    what: "FoundationDB: reads of one key",
    value: 100_000,
    text: "about 100,000/s with three copies",
    source: LIMITATIONS,
  },
  fdb_writes: {
    what: "FoundationDB: writes of a storage process",
    value: 20_000,
    text: "about 20,000 small keys/s on one core, engine ssd",
    source: PERFORMANCE,
  },
  fdb_commit_ms: {
    what: "FoundationDB: a commit",
    value: 10,
    text: "about 10 ms under normal load",
    source: "https://apple.github.io/foundationdb/developer-guide.html",
  },
  nats_connections: {
    what: "NATS: connections of a server",
    value: 65_536,
    text: "65,536 by default (`max_connections`)",
    source: NATS_CONFIGURATION,
  },
  nats_core: {
    what: "NATS: messages without a stream",
    value: 1_000_000,
    text: "1.2 million/s to each of five subscribers, 16 bytes, on one machine",
    source: NATS_BENCH,
  },
  nats_stream: {
    what: "NATS: messages into one stream",
    value: 270_000,
    text: "270,000/s in memory, one copy; a stream on disk with three copies and a sync for each write stores fewer: measure yours",
    source: NATS_BENCH,
  },
  nats_assets: {
    what: "NATS: streams and consumers with copies",
    value: 0,
    text: "no fixed number; a server may be given one (`max_ha_assets`), since each has a Raft group of its own",
    source: "https://docs.nats.io/running-a-nats-service/configuration/resource_management",
  },
  nats_api: {
    what: "NATS: open requests to JetStream",
    value: 10_000,
    text: "10,000; then the server drops all that wait",
    source: "https://docs.nats.io/running-a-nats-service/configuration/resource_management",
  },
} as const satisfies Readonly<Record<string, PublicFigure>>;

/** Choices, not facts. Options of `npm run sizing` change the first five. */
export const CHOICES = {
  bytes: { value: 4_096, text: "bytes of a checkpoint as JSON (`--bytes`)" },
  per_hour: { value: 6, text: "checkpoints of an agent in an hour, on average (`--per-hour`)" },
  heartbeat_s: { value: 2, text: "seconds between two heartbeats of an agent (`--heartbeat`)" },
  silence_s: { value: 10, text: "the silence timeout of the policy, in seconds (`--silence`)" },
  copies: { value: 3, text: "copies of FoundationDB (`--copies`): 2 for `double`, 3 for `triple`" },
  peak: { value: 3, text: "the highest rate of writes, as a multiple of the average" },
  handoffs: { value: 0.05, text: "handoffs for each checkpoint" },
  recoveries: { value: 0.005, text: "recoveries for each checkpoint" },
  use: { value: 0.6, text: "the part of a core, a connection limit or a disk that is planned for use" },
  heap_bytes: { value: 2_000_000_000, text: "memory of a watchdog for its agents, in bytes" },
  disk_overhead: { value: 1.5, text: "disk for each stored byte of one copy" },
  storage_bytes: { value: 1e12, text: "disk of one storage process of FoundationDB, in bytes" },
  other_processes: {
    value: 0.5,
    text: "logs and stateless processes of FoundationDB, for each storage process",
  },
} as const;
