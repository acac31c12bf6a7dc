// Program: the agents. Each has its own identity and task and uses the SDK; they share a few connections. All latencies are those
// of an agent, from the call to its answer.

import { setTimeout as sleep } from "node:timers/promises";
import { issueLocally } from "../../../shared/bus/access/local-credentials.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import type { ClientRole } from "../../../shared/protocol/roles.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import type { FleetClient } from "../../../shared/sdk/client/client.ts";
import { clientOver } from "../../../shared/sdk/client/connect.ts";
import { serveJobs } from "../jobs.ts";
import { type Summary, summarize } from "../measure/percentiles.ts";
import { arrivals, closedLoop, openLoop } from "../measure/request-rate.ts";
import { createWorkload, seededRandom } from "../workload.ts";

const CONNECTIONS = 4;
const SETTLE_MS_MAX = 120_000;
const IDS_MAX = 20_000;

const workload = createWorkload(2);
const random = seededRandom(3);
const log = createLogger({ service: "bench", level: "silent" });

let buses: Bus[] = [];
let clients: FleetClient[] = [];
let observer: FleetClient;
let steps: number[] = [];
/** The ids of stored checkpoints. */
let ids: string[] = [];

const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;

const jobs = {
  connect,
  disconnect,
  steady,
  burst,
  sustained,
  settle,
  loadIds,
  reads,
  pacedGets,
  searches,
};
export type AgentsJobs = typeof jobs;
serveJobs(jobs);

/** Each connection acts as one agent with many tasks, as credentials demand. */
export interface Identified {
  /** The home of the fleet's keys. Absent: the fleet has no credentials. */
  readonly home?: string | undefined;
  /** The authority of the bus's certificate. Absent: no TLS. */
  readonly caFile?: string | undefined;
}

interface ConnectParams {
  readonly url: string;
  readonly agents: number;
  /** Absent: each connection acts for many agents, for a fleet without credentials. */
  readonly identified?: Identified;
}

async function connect({ url, agents, identified }: ConnectParams): Promise<void> {
  const { home, caFile } = identified ?? {};
  const identity = (connection: number) => `bench-${connection}`;
  const open = async (role: ClientRole, i: number) => {
    const name = identity(i);
    const creds = home && (await issueLocally(home, { role, tenant: DEFAULT_TENANT, name }));
    return connectBus({
      url,
      name: `bench/${i}`,
      tenant: DEFAULT_TENANT,
      identity: name,
      log,
      connectTimeoutMs: 5_000,
      ...(creds !== undefined && { credentials: { creds } }),
      ...(caFile !== undefined && { tls: { caFile } }),
    });
  };
  buses = await Promise.all(Array.from({ length: CONNECTIONS }, (_, i) => open("agent", i)));
  // Its commands are not queued: the measurement is of the writer's answers only.
  const clientOf = (bus: Bus, agentId: string) =>
    clientOver(bus, {
      clock: systemClock,
      log,
      tenant: DEFAULT_TENANT,
      agentId,
      onWarning: ({ text }) => {
        throw new Error(text);
      },
    });
  clients = Array.from({ length: agents }, (_, agent) => {
    const connection = agent % CONNECTIONS;
    const agentId = identified === undefined ? workload.agentId(agent) : identity(connection);
    return clientOf(buses[connection]!, agentId);
  });
  // An agent with credentials may not read the status of the fleet.
  if (home !== undefined) buses.push(await open("observer", CONNECTIONS));
  observer = home === undefined ? clients[0]! : clientOf(buses.at(-1)!, identity(CONNECTIONS));
  steps = clients.map(() => 0);
  ids = [];
}

async function disconnect(_: object): Promise<void> {
  await Promise.all(buses.map((bus) => bus.close()));
}

async function write(agent: number): Promise<void> {
  const step = steps[agent]!++;
  const checkpoint = workload.checkpoint(agent, step);
  const taskId = workload.taskId(agent);
  const { checkpointId } = await clients[agent]!.task(taskId).checkpoint(checkpoint);
  if (ids.length < IDS_MAX) ids.push(checkpointId);
  else ids[Math.floor(random() * IDS_MAX)] = checkpointId;
}

async function get(): Promise<void> {
  if ((await pick(clients).getCheckpoint(pick(ids))) === null) throw new Error("a checkpoint is missing");
}

/** Begins to measure; the result returns this process's share of one core, in percent. */
function processorShare(): () => number {
  const begin = performance.now();
  const used = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(used);
    return (user + system) / 10 / (performance.now() - begin);
  };
}

/** Prints the first failure and returns the number of failures. */
function failed(...failures: readonly unknown[]): number {
  const [first] = failures;
  if (first !== undefined) {
    const reason = first instanceof FleetError ? `${first.code}, ${first.message}` : String(first);
    process.stderr.write(`  ${failures.length} requests failed; the first: ${reason}\n`);
  }
  return failures.length;
}

interface SteadyParams {
  readonly seconds: number;
  readonly getsPerSecond: number;
  /** The number of agents that write. Default: all. */
  readonly agents?: number;
}

/** Every agent writes once a second, while `getsPerSecond` reads are made. */
async function steady({ seconds, getsPerSecond, agents = clients.length }: SteadyParams) {
  const { times, callers } = arrivals({ callers: agents, perSecond: 1, seconds }, random);
  const busy = processorShare();
  const [writes, gets] = await Promise.all([
    openLoop(times, (i) => write(callers[i]!)),
    getsPerSecond === 0
      ? null
      : openLoop(arrivals({ callers: 1, perSecond: getsPerSecond, seconds }, random).times, get),
  ]);
  return {
    write: summarize(writes.latencies),
    lateness: summarize(writes.lateness),
    get: gets && summarize(gets.latencies),
    failed: failed(...writes.failures, ...(gets?.failures ?? [])),
    clientPercent: busy(),
  };
}

/** Every agent writes at the same instant. `last` is the time until the last agent knows that its checkpoint is committed. */
async function burst(_: object): Promise<{ committed: number; last: number; latencies: number[] }> {
  const latencies: number[] = [];
  const checkpoints = clients.map((_, agent) => workload.checkpoint(agent, steps[agent]!++));
  const begin = performance.now();
  await Promise.allSettled(
    clients.map(async (client, agent) => {
      await client.task(workload.taskId(agent)).checkpoint(checkpoints[agent]!, { deadlineMs: 30_000 });
      latencies.push(performance.now() - begin);
    }),
  );
  return { committed: latencies.length, last: performance.now() - begin, latencies };
}

/** Every agent writes its next checkpoint as soon as it has its answer. */
async function sustained({ warmUpSeconds, seconds }: { warmUpSeconds: number; seconds: number }) {
  const busy = processorShare();
  const callers = clients.length;
  const { latencies, failures, perSecond, succeeded } = await closedLoop(
    { callers, warmUpSeconds, seconds },
    write,
  );
  return {
    perSecond,
    /** The warm-up included. */
    committed: succeeded,
    latency: summarize(latencies),
    failed: failed(...failures),
    clientPercent: busy(),
  };
}

/** Waits until all events are published and all checkpoints are indexed; returns the time that each took, in ms. */
async function settle(_: object): Promise<{ published: number; indexed: number }> {
  const begin = performance.now();
  const since = { published: -1, indexed: -1 };
  while (since.published < 0 || since.indexed < 0) {
    if (performance.now() - begin > SETTLE_MS_MAX)
      throw new Error("the relay or the indexer does not catch up");
    await sleep(10);
    // An overloaded fleet may not answer in time.
    const status = await observer.admin.status().catch(() => null);
    if (status === null) continue;
    const now = performance.now() - begin;
    if (since.published < 0 && status.outbox.depth === 0) since.published = now;
    if (since.indexed < 0 && status.index.behind === 0) since.indexed = now;
  }
  return since;
}

/** Loads the ids of the checkpoints of some tasks. */
async function loadIds({ tasks, of }: { tasks: number; of: number }): Promise<void> {
  for (let i = 0; i < tasks; i += 1) {
    const { checkpoints } = await clients[0]!.getCheckpointHistory(
      workload.taskId(Math.floor((i * of) / tasks)),
      { limit: 100 },
    );
    ids.push(...checkpoints.map(({ metadata }) => metadata.checkpoint_id));
  }
}

interface ReadParams {
  readonly op: "get" | "task" | "latest" | "history";
  /** The number of tasks to choose from, and of checkpoints in each. */
  readonly tasks: number;
  readonly perTask: number;
  readonly concurrency: number;
  readonly seconds: number;
}

async function reads({ op, tasks, perTask, concurrency, seconds }: ReadParams) {
  const anyTask = () => workload.taskId(Math.floor(random() * tasks));
  const one = {
    get,
    async task() {
      if ((await pick(clients).getTask(anyTask())) === null) throw new Error("a task is missing");
    },
    async latest() {
      if ((await pick(clients).getLatestCheckpoint(anyTask())) === null)
        throw new Error("a task has no checkpoint");
    },
    async history() {
      const page = await pick(clients).getCheckpointHistory(anyTask(), { limit: perTask });
      if (page.checkpoints.length !== perTask) throw new Error("a history is not complete");
    },
  }[op];
  return measured(concurrency, seconds, one);
}

/** Reads at set times, independent of the fleet's answers; the latency counts from the set time. */
async function pacedGets({ perSecond, seconds }: { perSecond: number; seconds: number }) {
  const { times } = arrivals({ callers: 1, perSecond, seconds }, random);
  const { latencies, failures } = await openLoop(times, get);
  return { ...summarize(latencies), failed: failed(...failures) };
}

interface SearchParams {
  readonly agents: number;
  readonly fromMs: number;
  readonly spanMs: number;
  /** The share of the span that one search covers. */
  readonly share: number;
  readonly limit: number;
  readonly seconds: number;
}

/** Searches the newest page of one agent's checkpoints in a time window. */
async function searches({ agents, fromMs, spanMs, share, limit, seconds }: SearchParams) {
  return measured(1, seconds, async () => {
    const from = fromMs + random() * (1 - share) * spanMs;
    const { checkpoints } = await pick(clients).searchCheckpoints({
      agentId: workload.agentId(Math.floor(random() * agents)),
      from: new Date(from).toISOString(),
      to: new Date(from + share * spanMs).toISOString(),
      limit,
    });
    if (checkpoints.length !== limit) throw new Error("a search found too few checkpoints");
  });
}

async function measured(
  concurrency: number,
  seconds: number,
  one: () => Promise<void>,
): Promise<Summary & { readonly failed: number }> {
  const time = { callers: concurrency, warmUpSeconds: seconds / 4, seconds };
  const { latencies, failures } = await closedLoop(time, one);
  return { ...summarize(latencies), failed: failed(...failures) };
}
