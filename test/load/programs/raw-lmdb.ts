// Program: LMDB alone with the bytes of create commands. The environment is opened as the store opens it, so a commit is on disk
// when it returns. With 1,000 in flight, all waiting transactions share one commit, as in the store's group commit.

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type LmdbEnvironment, openEnvironment } from "../../../shared/store/lmdb/environment.ts";
import { serveJobs } from "../jobs.ts";
import { summarize } from "../measure/percentiles.ts";
import { bytesOf, recordCreates } from "../recorded-creates.ts";
import type { Write } from "../recorded-writes.ts";

interface Params {
  /** The parent folder of the environments. */
  readonly folder: string;
  readonly agents: number;
  /** The number of recorded checkpoints of each agent; the measurement repeats them. */
  readonly rounds: number;
  readonly seconds: number;
}

const MAP_BYTES = 16 * 2 ** 30;

const jobs = { measure };
export type RawLmdbJobs = typeof jobs;
serveJobs(jobs);

async function measure({ folder, agents, rounds, seconds }: Params) {
  const { transactions, sizes } = await recordCreates(agents, rounds);
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

/** Commits `batch` transactions at a time to an empty environment. After the last transaction, a new environment begins. */
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

function commit(
  environment: LmdbEnvironment,
  transactions: readonly Write[][],
  from: number,
  to: number,
): void {
  environment.transactionSync(() => {
    for (let i = from; i < to; i += 1) {
      for (const { key, value } of transactions[i]!) {
        if (value === null) environment.remove(key);
        else environment.put(key, value);
      }
    }
  });
}
