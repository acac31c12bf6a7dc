// The checkpoints of a LangGraph agent: the state of the other agents' workload, in one channel, as a graph of one node writes it. With
// LangGraph's own fields it has 4 KB, as a checkpoint of the fleet has with the fleet's own.

import type { ChannelVersions, Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { createWorkload } from "../workload.ts";

/** LangGraph adds fewer bytes to a state than the fleet does. */
const STATE_BYTES = 3_750;

export interface GraphStep {
  readonly checkpoint: Checkpoint;
  readonly metadata: CheckpointMetadata;
  readonly versions: ChannelVersions;
}

export function createGraphWorkload(seed: number) {
  const workload = createWorkload(seed, STATE_BYTES);
  return {
    threadId: (agent: number) => workload.taskId(agent),
    step(agent: number, step: number, id: string, now: Date): GraphStep {
      const versions = { state: step + 1 };
      return {
        checkpoint: {
          v: 4,
          id,
          ts: now.toISOString(),
          channel_values: { state: workload.checkpoint(agent, step) },
          channel_versions: versions,
          versions_seen: { agent: { state: step } },
        },
        metadata: { source: "loop", step, parents: {} },
        versions,
      };
    },
  };
}
