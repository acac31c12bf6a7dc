// Program: one agent that calls a model repeatedly. It writes its checkpoints through the loop of the SDK, as other agents do, or
// it writes none.

import { setTimeout as sleep } from "node:timers/promises";
import { runAgent } from "../../../shared/sdk/sdk.ts";
import { serveJobs } from "../jobs.ts";
import { createWorkload } from "../workload.ts";

const workload = createWorkload(7);

const jobs = { withoutCheckpoints, withCheckpoints };
export type WorkingAgentJobs = typeof jobs;
serveJobs(jobs);

interface WorkParams {
  readonly calls: number;
  /** The answer time of the model. */
  readonly callMs: number;
}

interface WorkTime {
  readonly elapsedMs: number;
  /** The processor time of this process. */
  readonly processorMs: number;
}

async function measured(work: () => Promise<void>): Promise<WorkTime> {
  const processor = process.cpuUsage();
  const began = performance.now();
  await work();
  const elapsedMs = performance.now() - began;
  const { user, system } = process.cpuUsage(processor);
  return { elapsedMs, processorMs: (user + system) / 1_000 };
}

function withoutCheckpoints({ calls, callMs }: WorkParams): Promise<WorkTime> {
  return measured(async () => {
    for (let call = 0; call < calls; call += 1) await sleep(callMs);
  });
}

interface CheckpointParams extends WorkParams {
  readonly url: string;
  readonly task: string;
  /** The number of items between two checkpoints; each call completes one item. */
  readonly items: number;
}

async function withCheckpoints({ url, task, calls, callMs, items }: CheckpointParams): Promise<WorkTime> {
  let time: WorkTime | undefined;
  const { execution_state, ...rest } = workload.checkpoint(1, 1);
  await runAgent({
    type: "implementation",
    task,
    begin: execution_state,
    checkpoints: { items },
    connect: { url, agentId: `bench-${task}` },
    work: async (run) => {
      Object.assign(run.state, rest);
      run.state.execution_state.pending_items = [];
      await run.checkpoint("warm");
      time = await measured(async () => {
        for (let call = 0; call < calls; call += 1) {
          await sleep(callMs);
          await run.done(`call ${call}`);
        }
      });
    },
  });
  if (time === undefined) throw new Error("the agent did not work");
  return time;
}
