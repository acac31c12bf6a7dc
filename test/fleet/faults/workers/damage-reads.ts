/** Reads a damaged checkpoint with every query of an agent, at once and later. */
import { setTimeout as sleep } from "node:timers/promises";
import { type AgentContext, takeStep } from "../agents/agent.ts";
import type { ReadStep } from "../agents/workload.ts";

const READS_AFTER_MS = [0, 300, 3_000];

export async function readDamaged(reader: AgentContext, task: string, id: string): Promise<void> {
  const steps: ReadStep[] = [
    { op: "get", task, id },
    { op: "latest", task },
    { op: "history", task, limit: 20 },
  ];
  for (const ms of READS_AFTER_MS) {
    await sleep(ms);
    for (const step of steps) await takeStep(reader, step);
  }
}
