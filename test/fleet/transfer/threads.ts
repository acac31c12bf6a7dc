// Graphs and threads for the imports of LangGraph's own savers.

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver, CheckpointTuple } from "@langchain/langgraph-checkpoint";

export const threadConfig = (thread_id: string) => ({ configurable: { thread_id } });

/** Everything that LangGraph reads of a thread. A channel without a version has its default value, which savers need not keep. */
export async function contentsOf(saver: BaseCheckpointSaver, thread: string): Promise<unknown[]> {
  const found: CheckpointTuple[] = [];
  for await (const tuple of saver.list(threadConfig(thread))) found.push(tuple);
  return found.map(({ config, checkpoint, metadata, parentConfig, pendingWrites }) => ({
    ...{ config, metadata, parent: parentConfig?.configurable?.checkpoint_id },
    checkpoint: {
      ...checkpoint,
      channel_values: Object.fromEntries(
        Object.entries(checkpoint.channel_values).filter(
          ([channel]) => channel in checkpoint.channel_versions,
        ),
      ),
    },
    writes: (pendingWrites ?? []).map((write) => JSON.stringify(write)).sort(),
  }));
}

/** Two nodes at once, one of which fails while `isBroken`, and values of every kind. */
export function failingGraph(checkpointer: BaseCheckpointSaver, runs: string[], isBroken: () => boolean) {
  const State = Annotation.Root({
    done: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
    seen: Annotation<Set<string>>,
    bytes: Annotation<{ raw: Uint8Array }>,
    untouched: Annotation<string>,
  });
  const step = (name: string) => () => {
    runs.push(name);
    if (name === "right" && isBroken()) throw new Error("the tool is not there");
    return { done: [name] };
  };
  return new StateGraph(State)
    .addNode("first", () => ({
      ...{ done: ["first"], seen: new Set(["ü"]), bytes: { raw: new Uint8Array([0, 255]) } },
    }))
    .addNode("left", step("left"))
    .addNode("right", step("right"))
    .addNode("last", step("last"))
    .addEdge(START, "first")
    .addEdge("first", "left")
    .addEdge("first", "right")
    .addEdge("left", "last")
    .addEdge("right", "last")
    .addEdge("last", END)
    .compile({ checkpointer: checkpointer as never });
}
