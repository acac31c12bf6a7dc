/** The start of a run: a task that the agent owns, and how it became the owner. */
import type { PromptHandoff } from "../../prompts/prompt.ts";
import type { Phase } from "../../protocol/checkpoint.ts";
import type { OfferData } from "../../protocol/offer.ts";
import type { TaskHandle } from "../client/task.ts";

/** Long, because the agent already owns the task and cannot continue without its checkpoint. */
export const RESUME_MS = 60_000;

export interface Assignment {
  /** Carries the agent's fence. */
  readonly task: TaskHandle;
  /** null: the run began in another way. */
  readonly offer: OfferData | null;
  /** null: the run continues from the newest checkpoint, and no handoff waits for its confirmation. */
  readonly handover: Handover | null;
}

/** A task that was handed over. The first checkpoint confirms it. */
export interface Handover {
  /** undefined: the newest. */
  readonly checkpointId: string | undefined;
  /** null: none was given. */
  readonly prompt: string | null;
  /** null: not known. */
  readonly handoff: (PromptHandoff & { readonly next_phase?: Phase | null }) | null;
}

export function assignmentByOffer(task: TaskHandle, offer: OfferData): Assignment {
  const handoff = { ...offer, to_agent_type: offer.agent_type };
  return { task, offer, handover: { checkpointId: offer.checkpoint.id, prompt: offer.prompt, handoff } };
}

/** `isGiven`: another program took or acknowledged the task for this agent. */
export function assignmentByName(task: TaskHandle, isGiven: boolean): Assignment {
  const handover = isGiven ? { checkpointId: undefined, prompt: null, handoff: null } : null;
  return { task, offer: null, handover };
}
