// Program: an agent that hands tasks off, and a resident agent that waits for offers. The times are those of the two agents: from
// the request of the source to the moment when the resident agent knows that it owns the task.

import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { serveJobs } from "../jobs.ts";
import { type Summary, summarize } from "../measure/percentiles.ts";
import { createWorkload } from "../workload.ts";

/** Above the number of handoffs in a round, so that no offer waits for the resident agent. */
const OFFER_CONCURRENCY = 256;
const TYPE = "implementation";

const workload = createWorkload(5);

let source: FleetClient;
let resident: FleetClient;
let stopOffers: () => Promise<void>;
let tasks = 0;
const accepting = new Map<string, () => void>();

const jobs = { connectBoth, disconnect, handOff };
export type HandoffJobs = typeof jobs;
serveJobs(jobs);

async function connectBoth({ url }: { url: string }): Promise<void> {
  [source, resident] = (await Promise.all(
    ["bench-source", "bench-resident"].map((agentId) => connect({ url, agentId, fallback: "none" })),
  )) as [FleetClient, FleetClient];
  stopOffers = await resident.onOffer(
    TYPE,
    async (offer) => {
      const { task } = await offer.acknowledge();
      accepting.get(offer.data.task_id)?.();
      await task.checkpoint({
        ...workload.checkpoint(1, tasks),
        metadata: { agent_type: TYPE, trigger: { reason: "reassignment" } },
      });
    },
    { concurrency: OFFER_CONCURRENCY },
  );
}

async function disconnect(_: object): Promise<void> {
  await stopOffers();
  await Promise.all([source.close(), resident.close()]);
}

interface HandoffParams {
  readonly rounds: number;
  readonly concurrency: number;
}

/** Each round creates new tasks with a checkpoint each and then hands them off at the same instant. */
async function handOff({
  rounds,
  concurrency,
}: HandoffParams): Promise<Summary & { readonly failed: number }> {
  const latencies: number[] = [];
  let failed = 0;
  for (let round = 0; round < rounds; round += 1) {
    const names = Array.from({ length: concurrency }, () => `handoff-${++tasks}`);
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
