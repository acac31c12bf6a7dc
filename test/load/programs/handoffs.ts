// Program: agents that hand their tasks over, and a resident agent that waits for offers. Times are what the two of them see: from
// the source's request to the moment when the taker knows that the task is its own.

import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { serveJobs } from "../jobs.ts";
import { type Summary, summarize } from "../measure/percentiles.ts";
import { createWorkload } from "../workload.ts";

/** Above what a round asks for at once: the taker is never what others wait for. */
const HANDS = 256;
const TYPE = "implementation";

const workload = createWorkload(5);

let source: FleetClient;
let taker: FleetClient;
let stopTaking: () => Promise<void>;
let tasks = 0;
const accepting = new Map<string, () => void>();

const jobs = { connectBoth, disconnect, handOver };
export type HandoffJobs = typeof jobs;
serveJobs(jobs);

async function connectBoth({ url }: { url: string }): Promise<void> {
  [source, taker] = (await Promise.all(
    ["bench-source", "bench-taker"].map((agentId) => connect({ url, agentId, fallback: "none" })),
  )) as [FleetClient, FleetClient];
  stopTaking = await taker.onOffer(
    TYPE,
    async (offer) => {
      const { task } = await offer.acknowledge();
      accepting.get(offer.data.task_id)?.();
      await task.checkpoint({
        ...workload.checkpoint(1, tasks),
        metadata: { agent_type: TYPE, trigger: { reason: "reassignment" } },
      });
    },
    { concurrency: HANDS },
  );
}

async function disconnect(_: object): Promise<void> {
  await stopTaking();
  await Promise.all([source.close(), taker.close()]);
}

export interface HandOver {
  readonly rounds: number;
  readonly atOnce: number;
}

/** New tasks in each round: a checkpoint each, then all are handed over at the same instant. */
async function handOver({ rounds, atOnce }: HandOver): Promise<Summary & { readonly failed: number }> {
  const latencies: number[] = [];
  let failed = 0;
  for (let round = 0; round < rounds; round += 1) {
    const names = Array.from({ length: atOnce }, () => `handoff-${++tasks}`);
    await Promise.all(names.map((taskId, i) => source.createCheckpoint({ taskId, checkpoint: ofType(i) })));
    const begin = performance.now();
    const settled = await Promise.allSettled(
      names.map(async (taskId) => {
        const accepted = new Promise<void>((resolve) => accepting.set(taskId, resolve));
        await source.initiateHandoff(null, { taskId });
        await accepted;
        latencies.push(performance.now() - begin);
      }),
    );
    for (const one of settled) {
      if (one.status === "fulfilled") continue;
      if (failed === 0) process.stderr.write(`  a handoff failed: ${String(one.reason)}\n`);
      failed += 1;
    }
  }
  return { ...summarize(latencies), failed };
}

function ofType(step: number) {
  const checkpoint = workload.checkpoint(0, step);
  return { ...checkpoint, metadata: { ...checkpoint.metadata, agent_type: TYPE } };
}
