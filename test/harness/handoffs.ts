/** Handoffs for tests: tasks brought to where a test begins, by the same calls that agents and coordinators make. */
import type { HandoffAnswer } from "../../shared/protocol/answers.ts";
import type { Handoff } from "../../shared/protocol/handoff.ts";
import type { Offering } from "../../shared/records/handoff/moves.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import { type Sending, send } from "./records.ts";

export function offering(handoff: Handoff, changes: Partial<Offering> = {}): Offering {
  return {
    attempt: handoff.attempt + 1,
    maxAttempts: 3,
    checkpoint: { id: handoff.checkpoint_id, version: 1, hash: handoff.checkpoint_hash },
    prompt: "Go on where it says.",
    promptStyle: "standard",
    promptTokens: 6,
    deadlineMs: 60_000,
    firstCheckpointMs: 900_000,
    ...changes,
  };
}

/** Asks for a handoff of the task's latest checkpoint, to `qa`. */
export function initiate(
  repository: CheckpointRepository,
  by: Sending & { body?: Record<string, unknown> },
): Promise<HandoffAnswer> {
  const { body = { to_agent_type: "qa" }, ...sending } = by;
  return send(repository, "handoff", body, sending);
}

/** From requested to offered, as a coordinator does it. */
export async function offer(
  repository: CheckpointRepository,
  id: string,
  changes: Partial<Offering> = {},
  tenant = "default",
): Promise<Handoff> {
  const { handoff } = await repository.validateHandoff(tenant, id, { toAgentType: "qa" });
  if (handoff === null) throw new Error("there is no such handoff");
  const offered = await repository.offerHandoff(tenant, id, offering(handoff, changes));
  if (!offered.applied || offered.handoff === null) throw new Error("the handoff was not offered");
  return offered.handoff;
}

/** Takes what was offered. */
export function acknowledge(
  repository: CheckpointRepository,
  handoff: Handoff,
  by: Sending & { body?: Record<string, unknown> } = {},
) {
  const { body, ...sending } = by;
  const offer = {
    handoff_id: handoff.handoff_id,
    checkpoint_id: handoff.checkpoint_id,
    agent_type: handoff.to_agent_type,
  };
  return send(repository, "acknowledge", { ...offer, ...body }, { task: handoff.task_id, ...sending });
}
