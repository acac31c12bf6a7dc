// Program: one agent at work, which calls a model again and again. It writes its checkpoints through the loop of the SDK, as any agent
// does, or none at all.

import { setTimeout as sleep } from "node:timers/promises";
import { runAgent } from "../../../shared/sdk/sdk.ts";
import { serveJobs } from "../jobs.ts";
import { createWorkload } from "../workload.ts";

const workload = createWorkload(7);

const jobs = { alone, kept };
export type WorkingAgentJobs = typeof jobs;
serveJobs(jobs);

export interface Work {
  readonly calls: number;
  /** How long the model takes to answer. */
  readonly callMs: number;
}

export interface Worked {
  readonly elapsedMs: number;
  /** Of this process. */
  readonly processorMs: number;
}

async function measured(work: () => Promise<void>): Promise<Worked> {
  const processor = process.cpuUsage();
  const began = performance.now();
  await work();
  const elapsedMs = performance.now() - began;
  const { user, system } = process.cpuUsage(processor);
  return { elapsedMs, processorMs: (user + system) / 1_000 };
}

function alone({ calls, callMs }: Work): Promise<Worked> {
  return measured(async () => {
    for (let call = 0; call < calls; call += 1) await sleep(callMs);
  });
}

interface Keeping extends Work {
  readonly url: string;
  readonly task: string;
  /** Items of work between two checkpoints; each call completes one. */
  readonly items: number;
}

async function kept({ url, task, calls, callMs, items }: Keeping): Promise<Worked> {
  let worked: Worked | undefined;
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
      worked = await measured(async () => {
        for (let call = 0; call < calls; call += 1) {
          await sleep(callMs);
          await run.done(`call ${call}`);
        }
      });
    },
  });
  if (worked === undefined) throw new Error("the agent did not work");
  return worked;
}
