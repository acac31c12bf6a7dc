// Program: FoundationDB alone with the bytes of create commands, and the records layer on FoundationDB. A raw transaction has the
// recorded writes only; the records layer also reads, retries and requests the stamp.

import { setTimeout as sleep } from "node:timers/promises";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { openFoundationdb } from "../../../shared/store/drivers/foundationdb.ts";
import { loadClient, openDatabase } from "../../../shared/store/foundationdb/client.ts";
import { openResult } from "../../../shared/store/foundationdb/results.ts";
import { send } from "../../harness/records/records.ts";
import { eraseEverything } from "../../harness/stores/foundationdb.ts";
import { serveJobs } from "../jobs.ts";
import { summarize } from "../measure/percentiles.ts";
import { closedLoop, type Measured } from "../measure/request-rate.ts";
import { bytesOf, recordCreates } from "../recorded-creates.ts";
import { createWorkload } from "../workload.ts";

interface Params {
  /** All keys of this cluster are erased. */
  readonly clusterFile: string;
  readonly agents: number;
  readonly rounds: number;
  readonly seconds: number;
}

type Send = (agent: number) => Promise<unknown>;

const WARM_UP_SECONDS = 1;
/** Time for the server to process the commits that it has acknowledged. */
const REST_MS = 1_000;

const jobs = { measure };
export type RawFoundationdbJobs = typeof jobs;
serveJobs(jobs);

async function measure({ clusterFile, agents, rounds, seconds }: Params) {
  const { transactions, sizes } = await recordCreates(agents, rounds);
  const store = await openFoundationdb({ clusterFile });
  await eraseEverything(store);
  const raw = await rawCommits(clusterFile, transactions);
  const rawFigures = await timed(raw.commit, agents, seconds);
  raw.close();
  await eraseEverything(store);
  const ours = await timed(await creates(store), agents, seconds);
  await eraseEverything(store);
  await store.close({ drainMs: 1_000 });
  return {
    sizes,
    writesPerCommit: transactions.at(-1)!.length,
    bytesPerCommit: bytesOf(transactions) / transactions.length,
    raw: rawFigures,
    ours,
  };
}

async function rawCommits(
  clusterFile: string,
  transactions: Awaited<ReturnType<typeof recordCreates>>["transactions"],
): Promise<{ commit: Send; close: () => void }> {
  const database = openDatabase(await loadClient(), clusterFile);
  let next = 0;
  const commit = async () => {
    const native = database.rawCreateTransaction();
    for (const { key, value } of transactions[next++ % transactions.length]!) {
      if (value === null) native.clear(key);
      else native.set(key, value);
    }
    await openResult(native.rawCommit(), () => native.rawCancel());
  };
  return { commit, close: () => database.close() };
}

/** Sends the create commands of each agent to the records layer, one after the other. */
async function creates(store: Awaited<ReturnType<typeof openFoundationdb>>): Promise<Send> {
  const format = await openFormat(store);
  const repository = new CheckpointRepository({ store, format, now: Date.now, finder: "bench" });
  const workload = createWorkload();
  const steps: number[] = [];
  return (agent) => {
    const step = (steps[agent] ?? 0) + 1;
    steps[agent] = step;
    const by = { agent: workload.agentId(agent), task: workload.taskId(agent) };
    return send(repository, "create", { checkpoint: workload.checkpoint(agent, step) }, by);
  };
}

async function timed(send: Send, agents: number, seconds: number) {
  const figures = async (callers: number, seconds: number) => {
    const { perSecond, ...measured } = await closedLoop(
      { callers, warmUpSeconds: WARM_UP_SECONDS, seconds },
      send,
    );
    await sleep(REST_MS);
    return { perSecond, latency: summarize(succeeded(measured).latencies) };
  };
  return { inFlight: await figures(agents, seconds), alone: await figures(1, seconds / 2) };
}

function succeeded(measured: Measured): Measured {
  if (measured.failures.length > 0) throw measured.failures[0];
  return measured;
}
