// Program: fills a closed store through the records layer, as a writer does, only without the bus. The checkpoints are spread
// over a day and over the tasks in turn, so that the checkpoints of a task lie as far apart as in production.

import { UUID } from "uuidv7";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { stepDraftSweep } from "../../../shared/records/drafts/superseded-drafts.ts";
import { type Format, openFormat } from "../../../shared/records/kv/format.ts";
import { clearPublished, readOutbox } from "../../../shared/records/outbox/outbox.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { stepIndex } from "../../../shared/records/search/indexer.ts";
import { openStore } from "../../../shared/store/open.ts";
import type { Store } from "../../../shared/store/store.ts";
import { send } from "../../harness/records/records.ts";
import { serveJobs } from "../jobs.ts";
import { createWorkload, seededRandom } from "../workload.ts";

interface LoadParams {
  readonly storeUrl: string;
  /** Tasks from `firstTask` on, with `perTask` checkpoints each, written by `agents` agents. */
  readonly firstTask: number;
  readonly tasks: number;
  readonly perTask: number;
  readonly agents: number;
  /** The time of the first checkpoint, in ms since 1970, and the time between the first and the last. */
  readonly fromMs: number;
  readonly spanMs: number;
}

const CONCURRENCY = 200;
const LOG_EVERY = 10_000;

const jobs = { load };
export type LoaderJobs = typeof jobs;
serveJobs(jobs);

function log(text: string): void {
  process.stderr.write(`  ${text}\n`);
}

/** Closes the store before it returns. The rates are checkpoints per second. */
async function load(params: LoadParams) {
  const store = await openStore(params.storeUrl);
  try {
    const format = await openFormat(store);
    const created = await timed(() => createAll(store, format, params));
    await finalizeDrafts(store, format);
    await clearOutbox(store);
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

async function createAll(store: Store, format: Format, params: LoadParams): Promise<number> {
  const { firstTask, tasks, perTask, agents, fromMs, spanMs } = params;
  const workload = createWorkload();
  const random = seededRandom(firstTask + 1);
  const bits = (count: number) => Math.floor(random() * 2 ** count);
  let newest = fromMs;
  const repository = new CheckpointRepository({
    store,
    format,
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
    if (created % LOG_EVERY === 0) log(`loaded ${created} of ${count}`);
  };
  // Each loop has its own tasks, so no two commands run on one task.
  const createSome = async (first: number) => {
    for (let step = 0; step < perTask; step += 1) {
      for (let task = first; task < tasks; task += CONCURRENCY) await one(task, step);
    }
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, tasks) }, (_, first) => createSome(first)));
  return count;
}

/** Finalizes the superseded drafts as the writer does in time: a fleet that starts with all of them is busy for minutes. */
async function finalizeDrafts(store: Store, { incarnation }: Format): Promise<void> {
  const sweep = {
    store,
    incarnation,
    service: "bench",
    now: () => Date.now(),
    policies: DEFAULT_POLICIES,
    afterMs: 0,
  };
  let finalized = 0;
  for (let more = true; more; ) {
    const step = await stepDraftSweep(sweep);
    if (step.skipped.length > 0) throw new Error("a superseded draft cannot be finalized");
    const logged = Math.floor(finalized / LOG_EVERY);
    finalized += step.finalized;
    if (Math.floor(finalized / LOG_EVERY) > logged) log(`finalized ${finalized}`);
    more = step.more;
  }
}

/** Clears the events as the relay does after it has published them: the fleet is measured with empty queues. */
async function clearOutbox(store: Store): Promise<void> {
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
  let logged = 0;
  for (;;) {
    const { followed, more, corrupt } = await stepIndex(store, async () => {});
    if (corrupt.length > 0) throw new Error("the indexer found corrupt checkpoints");
    count += followed;
    if (count - logged >= LOG_EVERY) {
      log(`indexed ${count}`);
      logged = count;
    }
    if (!more) return count;
  }
}
