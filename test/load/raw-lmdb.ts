// Program: what LMDB alone does with the bytes of create commands. The environment is opened as the store opens it, so a commit
// is on disk when it returns; with 1,000 in flight all that wait share one commit, as in the store's group commit.

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { canonicalBytes } from "../../shared/integrity/canonical.ts";
import { encodeBody } from "../../shared/integrity/wire.ts";
import { CONTENT_TYPES } from "../../shared/protocol/subjects.ts";
import { openFormat } from "../../shared/records/format.ts";
import { CheckpointRepository } from "../../shared/records/repository.ts";
import { type Environment, openEnvironment } from "../../shared/store/lmdb/environment.ts";
import { openStore } from "../../shared/store/open.ts";
import { send } from "../harness/records.ts";
import { serveJobs } from "./jobs.ts";
import { summarize } from "./percentiles.ts";
import { recording, type Write } from "./recorded-writes.ts";
import { createWorkload } from "./workload.ts";

interface Params {
  /** The programs make their folders in it. */
  readonly folder: string;
  readonly agents: number;
  /** Checkpoints of each agent that are recorded; the measurement goes through all of them again and again. */
  readonly rounds: number;
  readonly seconds: number;
}

const MAP_BYTES = 16 * 2 ** 30;
/** For the first checkpoint of a task less is written than for those that follow. */
const FIRST_STEP = 1;
/** Commands that are recorded at once. */
const AT_ONCE = 100;

const jobs = { measure };
export type RawLmdbJobs = typeof jobs;
serveJobs(jobs);

async function measure({ folder, agents, rounds, seconds }: Params) {
  const { transactions, sizes } = await record(agents, rounds);
  const group = await timed(folder, seconds, transactions, agents);
  const single = await timed(folder, seconds / 2, transactions, 1);
  const writes = transactions.at(-1)!;
  return {
    sizes,
    writesPerCommit: writes.length,
    bytesPerCommit: bytesOf(transactions) / transactions.length,
    inFlight: { perSecond: group.perSecond, latency: summarize(group.ms) },
    alone: { perSecond: single.perSecond, latency: summarize(single.ms) },
  };
}

function bytesOf(transactions: readonly Write[][]): number {
  return transactions.flat().reduce((sum, { key, value }) => sum + key.length + (value?.length ?? 0), 0);
}

async function record(agents: number, rounds: number) {
  const memory = await openStore("memory:");
  const format = await openFormat(memory);
  const { store, take } = recording(memory);
  const repository = new CheckpointRepository({ store, format, now: Date.now, finder: "bench" });
  const workload = createWorkload();
  const at = (agent: number) => ({ agent: workload.agentId(agent), task: workload.taskId(agent) });
  const round = async (step: number) => {
    for (let first = 0; first < agents; first += AT_ONCE) {
      const some = Array.from({ length: Math.min(AT_ONCE, agents - first) }, (_, i) => first + i);
      await Promise.all(
        some.map((agent) =>
          send(repository, "create", { checkpoint: workload.checkpoint(agent, step) }, at(agent)),
        ),
      );
    }
  };
  await round(0);
  take();
  for (let step = FIRST_STEP; step <= rounds; step += 1) await round(step);
  const transactions = take();

  const request = { command_id: uuidv7(), checkpoint: workload.checkpoint(0, FIRST_STEP) };
  const answer = await send(repository, "create", { checkpoint: request.checkpoint }, at(agents));
  const checkpoint = await repository.get("default", answer.checkpoint_id);
  await memory.close({ drainMs: 1_000 });
  const size = (value: unknown) => encodeBody(value, CONTENT_TYPES.json).length;
  const { hash: _hash, ...compliance } = checkpoint.compliance;
  const sizes = {
    canonical: canonicalBytes({ ...checkpoint, compliance }).length,
    createRequest: size(request),
    createAnswer: size(answer),
    getRequest: size({ checkpoint_id: answer.checkpoint_id }),
    getAnswer: size({ status: "ok", result: { checkpoint } }),
  };
  return { transactions, sizes };
}

/** Commits `batch` transactions at a time, from an empty environment, which starts anew when all have been written. */
async function timed(folder: string, seconds: number, transactions: readonly Write[][], batch: number) {
  const ms: number[] = [];
  let spent = 0;
  while (spent < seconds * 1_000) {
    const path = mkdtempSync(join(folder, "raw-lmdb-"));
    const environment = await openEnvironment({ path, mapSizeBytes: MAP_BYTES });
    for (let from = 0; from + batch <= transactions.length && spent < seconds * 1_000; from += batch) {
      const begin = performance.now();
      commit(environment, transactions, from, from + batch);
      ms.push(performance.now() - begin);
      spent += ms.at(-1)!;
    }
    await environment.close();
    rmSync(path, { recursive: true });
  }
  return { ms, perSecond: (ms.length * batch * 1_000) / spent };
}

function commit(environment: Environment, transactions: readonly Write[][], from: number, to: number): void {
  environment.transactionSync(() => {
    for (let i = from; i < to; i += 1) {
      for (const { key, value } of transactions[i]!) {
        if (value === null) environment.remove(key);
        else environment.put(key, value);
      }
    }
  });
}
