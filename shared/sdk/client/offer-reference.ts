/** The offer of a checkpoint's handoff, as the store has it. */
import { FleetError } from "../../protocol/errors.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import type { OfferReference } from "./options.ts";

/** Throws CONFLICT if the checkpoint is not offered now. */
export function offerReference(
  checkpointId: string,
  taskId: string,
  handoff: Handoff | null,
): OfferReference {
  if (
    handoff?.state !== "offered" ||
    handoff.checkpoint_id !== checkpointId ||
    handoff.to_agent_type === null
  ) {
    throw new FleetError("CONFLICT", "the checkpoint is not offered to an agent now", {
      details: { checkpoint_id: checkpointId, task_id: taskId, handoff_state: handoff?.state ?? null },
    });
  }
  const { handoff_id, to_agent_type: agent_type, offer_digest } = handoff;
  return {
    task_id: taskId,
    handoff_id,
    agent_type,
    checkpoint: { id: checkpointId },
    digest: offer_digest ?? "",
  };
}
