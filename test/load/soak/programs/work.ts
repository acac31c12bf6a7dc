// What the agents of a soak write, and the count of what they did.

import type { CheckpointInput, Phase } from "../../../../shared/sdk/sdk.ts";
import { FleetError } from "../../../../shared/sdk/sdk.ts";
import { createWorkload } from "../../workload.ts";

/** The type of all agents: each of them could continue the work of another. */
export const AGENT_TYPE = "implementation";
/** A checkpoint states how full the context is; a full one would be handed off at once. */
const STEPS = 100;

const workload = createWorkload(13);

export interface WorkCounts {
  commands: number;
  reads: number;
  /** Events that people received over HTTP. */
  events: number;
  handoffs: number;
  recoveries: number;
  completed: number;
  /** Commands that no writer answered in time, and that wait in the queue. */
  queued: number;
  failed: number;
  /** Not begun, because too much was in flight. */
  skipped: number;
  /** The number of failures by their code. */
  failures: Record<string, number>;
}

export const counts: WorkCounts = {
  ...{ commands: 0, reads: 0, events: 0, handoffs: 0, recoveries: 0, completed: 0 },
  ...{ queued: 0, failed: 0, skipped: 0 },
  failures: {},
};

export function noteFailure(what: string, error: unknown): void {
  counts.failed += 1;
  const reason = `${what}: ${error instanceof FleetError ? error.code : String(error).slice(0, 80)}`;
  counts.failures[reason] = (counts.failures[reason] ?? 0) + 1;
}

/** Counts a command that was committed or queued. */
export async function commanded<Outcome extends { readonly outcome: string }>(
  sent: Promise<Outcome>,
): Promise<Outcome> {
  const outcome = await sent;
  if (outcome.outcome === "committed") counts.commands += 1;
  else counts.queued += 1;
  return outcome;
}

export function checkpointOf(
  agent: number,
  step: number,
  phase: Phase = "implementing",
  reason: "progress" | "reassignment" = "progress",
): CheckpointInput {
  const made = workload.checkpoint(agent, step % STEPS);
  return {
    ...made,
    metadata: { ...made.metadata, agent_type: AGENT_TYPE, trigger: { reason } },
    execution_state: { ...made.execution_state, phase },
  };
}
