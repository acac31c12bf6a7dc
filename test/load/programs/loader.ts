// Program: fills a store that no fleet has open, through the records layer, as the writer would; only the bus is left out. Its
// checkpoints are spread over a day, tasks in turn, so that a task's checkpoints lie as far apart as they do in life.

import { UUID } from "uuidv7";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { clearPublished, readOutbox } from "../../../shared/records/outbox/outbox.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { stepIndex } from "../../../shared/records/search/indexer.ts";
import { openStore } from "../../../shared/store/open.ts";
import type { Store } from "../../../shared/store/store.ts";
import { send } from "../../harness/records/records.ts";
import { serveJobs } from "../jobs.ts";
import { createWorkload, seededRandom } from "../workload.ts";

export interface LoadParams {
  readonly store: string;
  /** Tasks from `firstTask` on, each with `perTask` checkpoints, of `agents` agents. */
  readonly firstTask: number;
  readonly tasks: number;
  readonly perTask: number;
  readonly agents: number;
  /** When the first of these checkpoints is made, ms since 1970, and how long after it the last. */
  readonly fromMs: number;
  readonly spanMs: number;
}

const LANES = 200;
const SAY_EVERY = 10_000;

const jobs = { load };
export type LoaderJobs = typeof jobs;
serveJobs(jobs);

function say(text: string): void {
  process.stderr.write(`  ${text}\n`);
}

/** Closes the store before it returns; rates are checkpoints per second. */
async function load(params: LoadParams) {
  const store = await openStore(`lmdb:${params.store}`);
  try {
    const created = await timed(() => createAll(store, params));
    await forgetEvents(store);
    const indexed = await timed(() => index(store));
    return {
      createdPerSecond: created.count / created.seconds,
      indexedPerSecond: indexed.count / indexed.seconds,
    };
  } finally {
    await store.close({ drainMs: 10_000 });
  }
}

async function timed(work: () => Promise<number>): Promise<{ count: number; seconds: number }> {
  const begin = performance.now();
  const count = await work();
  return { count, seconds: (performance.now() - begin) / 1_000 };
}

async function createAll(store: Store, params: LoadParams): Promise<number> {
  const { firstTask, tasks, perTask, agents, fromMs, spanMs } = params;
  const workload = createWorkload();
  const random = seededRandom(firstTask + 1);
  const bits = (count: number) => Math.floor(random() * 2 ** count);
  let newest = fromMs;
  const repository = new CheckpointRepository({
    store,
    format: await openFormat(store),
    now: () => newest,
    finder: "bench",
  });
  const count = tasks * perTask;
  let created = 0;
  const one = async (task: number, step: number) => {
    const at = Math.floor(fromMs + (spanMs * (step * tasks + task)) / count);
    newest = Math.max(newest, at);
    const agent = (firstTask + task) % agents;
    const by = {
      agent: workload.agentId(agent),
      task: workload.taskId(firstTask + task),
      commandId: UUID.fromFieldsV7(at, bits(12), bits(30), bits(32)).toString(),
    };
    await send(repository, "create", { checkpoint: workload.checkpoint(firstTask + task, step) }, by);
    created += 1;
    if (created % SAY_EVERY === 0) say(`loaded ${created} of ${count}`);
  };
  // A lane takes its tasks in turn, so no two commands meet at one task.
  const lane = async (first: number) => {
    for (let step = 0; step < perTask; step += 1) {
      for (let task = first; task < tasks; task += LANES) await one(task, step);
    }
  };
  await Promise.all(Array.from({ length: Math.min(LANES, tasks) }, (_, first) => lane(first)));
  return count;
}

/** As if the relay had published them; the fleet is to be measured with its queues empty. */
async function forgetEvents(store: Store): Promise<void> {
  const options = { label: "clear_outbox", deadlineMs: 10_000, onUnknown: "safe" } as const;
  for (let partition = 0; partition < LIMITS.outbox_partition_count; partition += 1) {
    for (let more = true; more; ) {
      const page = await store.read(options, (reader) => readOutbox(reader, partition, 1_000));
      if (page.entries.length > 0)
        await store.transact(options, async (tx) => clearPublished(tx, page.entries));
      more = page.more;
    }
  }
}

async function index(store: Store): Promise<number> {
  let count = 0;
  let said = 0;
  for (;;) {
    const { followed, more, corrupt } = await stepIndex(store, async () => {});
    if (corrupt.length > 0) throw new Error("the indexer found corrupt checkpoints");
    count += followed;
    if (count - said >= SAY_EVERY) {
      say(`indexed ${count}`);
      said = count;
    }
    if (!more) return count;
  }
}
