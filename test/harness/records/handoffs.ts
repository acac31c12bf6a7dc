/** The steps of a handoff for tests, by the calls that agents and coordinators make. */
import { uuidv7 } from "uuidv7";
import type { Offering } from "../../../shared/lifecycle/handoff.ts";
import type { HandoffAnswer } from "../../../shared/protocol/answers.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { create, input, type SendOptions, send, type TestRecords } from "./records.ts";

export const handoffInput = () => input({ phase: "handoff" });

/** The error with which a command is refused; throws any other error. */
export async function refusal(promise: Promise<unknown>): Promise<FleetError> {
  const error = await promise.then(
    () => new Error("it was accepted"),
    (reason: unknown) => reason,
  );
  if (error instanceof FleetError) return error;
  throw error;
}

export function offering(handoff: Handoff, changes: Partial<Offering> = {}): Offering {
  return {
    attempt: handoff.attempt + 1,
    maxAttempts: 3,
    checkpoint: { id: handoff.checkpoint_id, version: 1, hash: handoff.checkpoint_hash },
    prompt: "Continue from the checkpoint.",
    promptStyle: "standard",
    promptTokens: 6,
    salt: "0".repeat(64),
    deadlineMs: 60_000,
    firstCheckpointMs: 900_000,
    ...changes,
  };
}

/** Requests a handoff of the task's latest checkpoint, by default to `qa`. */
export function initiate(
  repository: CheckpointRepository,
  by: SendOptions & { body?: Record<string, unknown> },
): Promise<HandoffAnswer> {
  const { body = { to_agent_type: "qa" }, ...sending } = by;
  return send(repository, "handoff", body, sending);
}

/** Validates and offers a requested handoff, as a coordinator does. */
export async function offer(
  repository: CheckpointRepository,
  id: string,
  { toAgentType = "qa", ...changes }: Partial<Offering> & { readonly toAgentType?: string } = {},
): Promise<Handoff> {
  const { handoff } = await repository.handoffActions.validateHandoff("default", id, { toAgentType });
  if (handoff === null) throw new Error("there is no such handoff");
  const offered = await repository.handoffActions.offerHandoff("default", id, offering(handoff, changes));
  if (!offered.applied || offered.handoff === null) throw new Error("the handoff was not offered");
  return offered.handoff;
}

/** Offers a task whose agent has left, with two pending items, to an agent type; resolves with the id of the handoff. */
export async function offeredTask(
  { repository }: TestRecords,
  task: string,
  agentType: string,
  changes: Partial<Offering> = {},
): Promise<string> {
  const commandId = uuidv7();
  await create(repository, { task, agent: "source" });
  const checkpoint = input({
    phase: "handoff",
    pending_items: ["second", "third"],
    completed_items: ["first"],
  });
  await create(repository, { task, agent: "source", commandId, checkpoint });
  await offer(repository, commandId, { toAgentType: agentType, ...changes });
  return commandId;
}

/** Accepts an offered handoff. */
export function acknowledge(
  repository: CheckpointRepository,
  handoff: Handoff,
  by: SendOptions & { body?: Record<string, unknown> } = {},
) {
  const { body, ...sending } = by;
  const offer = {
    handoff_id: handoff.handoff_id,
    checkpoint_id: handoff.checkpoint_id,
    agent_type: handoff.to_agent_type,
    offer_digest: handoff.offer_digest ?? "0".repeat(64),
  };
  return send(repository, "acknowledge", { ...offer, ...body }, { task: handoff.task_id, ...sending });
}
