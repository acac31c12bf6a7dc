// Program: agents of LangGraph. Each has a thread of its own and writes its next checkpoint as soon as the last one is acknowledged.
// The saver runs in this process, as in a process with graphs. A graph also saves the writes of every node, which are left out here.

import { createRequire } from "node:module";
import { join } from "node:path";
import { type BaseCheckpointSaver, uuid6 } from "@langchain/langgraph-checkpoint";
import type { Pool } from "pg";
import { serveJobs } from "../jobs.ts";
import { summarize } from "../measure/percentiles.ts";
import { closedLoop } from "../measure/request-rate.ts";
import { createGraphWorkload } from "../peers/graph-state.ts";
import { SqliteDatabase } from "../peers/sqlite-database.ts";
import { seededRandom } from "../workload.ts";

export type SaverTarget =
  | { readonly kind: "postgres"; readonly url: string; readonly connections: number }
  | { readonly kind: "sqlite"; readonly path: string; readonly isSynced: boolean };

interface Opened {
  readonly saver: BaseCheckpointSaver;
  /** Ends when the database has nothing left to write. */
  rest(): Promise<void>;
}

interface PostgresPackage {
  readonly PostgresSaver: new (pool: Pool) => BaseCheckpointSaver & { setup(): Promise<void> };
}
interface SqlitePackage {
  readonly SqliteSaver: new (database: SqliteDatabase) => BaseCheckpointSaver;
}

const workload = createGraphWorkload(2);
const random = seededRandom(3);
let opened: Opened;
/** The number of checkpoints of each thread, and its newest one. */
let threads: { steps: number; newest: string | undefined }[] = [];

const jobs = { open, write, latest, rest };
export type LanggraphSaverJobs = typeof jobs;
serveJobs(jobs);

interface OpenParams {
  /** The folder with the packages. */
  readonly folder: string;
  readonly packageName: string;
  readonly target: SaverTarget;
  readonly threads: number;
}

async function open({ folder, packageName, target, threads: count }: OpenParams): Promise<void> {
  const load = createRequire(join(folder, "package.json"));
  threads = Array.from({ length: count }, () => ({ steps: 0, newest: undefined }));
  if (target.kind === "sqlite") {
    const { SqliteSaver } = load(packageName) as SqlitePackage;
    const saver = new SqliteSaver(new SqliteDatabase(target.path, target.isSynced));
    // Its log of writes is merged during the writes, so nothing is left afterwards.
    opened = { saver, rest: async () => {} };
    return;
  }
  const { PostgresSaver } = load(packageName) as PostgresPackage;
  const { Pool: PoolOfSaver } = load("pg") as { Pool: typeof Pool };
  const pool = new PoolOfSaver({ connectionString: target.url, max: target.connections });
  const saver = new PostgresSaver(pool);
  await saver.setup();
  opened = { saver, rest: async () => void (await pool.query("CHECKPOINT")) };
}

async function put(agent: number): Promise<void> {
  const thread = threads[agent]!;
  const id = uuid6(thread.steps);
  const { checkpoint, metadata, versions } = workload.step(agent, thread.steps, id, new Date());
  const configurable = {
    thread_id: workload.threadId(agent),
    checkpoint_ns: "",
    checkpoint_id: thread.newest,
  };
  await opened.saver.put({ configurable }, checkpoint, metadata, versions);
  thread.steps += 1;
  thread.newest = id;
}

async function write(time: { warmUpSeconds: number; seconds: number }) {
  const { latencies, failures, perSecond } = await closedLoop({ callers: threads.length, ...time }, put);
  const [first] = failures;
  if (first !== undefined) process.stderr.write(`  ${failures.length} puts failed; the first: ${first}\n`);
  return { perSecond, latency: summarize(latencies), failed: failures.length };
}

async function latest({ seconds }: { seconds: number }) {
  const one = async () => {
    const agent = Math.floor(random() * threads.length);
    const tuple = await opened.saver.getTuple({ configurable: { thread_id: workload.threadId(agent) } });
    if (
      tuple?.checkpoint.id !== threads[agent]!.newest ||
      tuple?.checkpoint.channel_values.state === undefined
    )
      throw new Error("the newest checkpoint is missing");
  };
  const time = { callers: 1, warmUpSeconds: seconds / 4, seconds };
  const { latencies, failures } = await closedLoop(time, one);
  return { ...summarize(latencies), failed: failures.length };
}

async function rest(_: object): Promise<void> {
  await opened.rest();
}
