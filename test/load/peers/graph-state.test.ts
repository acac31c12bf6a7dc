import { copyCheckpoint, MemorySaver } from "@langchain/langgraph-checkpoint";
import { expect, test } from "vitest";
import { createGraphWorkload } from "./graph-state.ts";

const workload = createGraphWorkload(2);

test("a step has 4 KB as LangGraph stores it", async () => {
  const { serde } = new MemorySaver();
  const sizes: number[] = [];
  for (let step = 0; step < 60; step += 1) {
    const { checkpoint, metadata } = workload.step(step * 7, step, crypto.randomUUID(), new Date(0));
    const [[, state], [, about]] = await Promise.all([
      serde.dumpsTyped(copyCheckpoint(checkpoint)),
      serde.dumpsTyped(metadata),
    ]);
    sizes.push(state.length + about.length);
  }
  const mean = sizes.reduce((sum, size) => sum + size, 0) / sizes.length;
  expect(Math.abs(mean - 4_096)).toBeLessThan(100);
});

test("each step changes its channel, so the state is written every time", () => {
  const [first, second] = [0, 1].map((step) => workload.step(1, step, "id", new Date(0)));
  expect(second!.versions).not.toEqual(first!.versions);
  expect(second!.checkpoint.channel_values).not.toEqual(first!.checkpoint.channel_values);
});
