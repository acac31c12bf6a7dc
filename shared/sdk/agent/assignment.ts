/** What an agent begins with: a task that is its own, and how it came to it. */
import type { PromptHandoff } from "../../prompts/prompt.ts";
import type { Phase } from "../../protocol/checkpoint.ts";
import type { OfferData } from "../../protocol/offer.ts";
import type { TaskHandle } from "../client/task.ts";

/** Having a task and not knowing where it stands would be worse than a long wait. */
export const RESUME_MS = 60_000;

export interface Assignment {
  /** Under the fence that this agent got. */
  readonly task: TaskHandle;
  /** null: it began in another way. */
  readonly offer: OfferData | null;
  /** null: it goes on with what is newest, and nobody waits to hear that the task arrived. */
  readonly handover: Handover | null;
}

/** By whom- and however it came, its arrival is said by a first checkpoint. */
export interface Handover {
  /** undefined: the newest. */
  readonly checkpointId: string | undefined;
  /** null: none was given. */
  readonly prompt: string | null;
  /** null: it is not known. */
  readonly handoff: (PromptHandoff & { readonly next_phase?: Phase | null }) | null;
}

export function assignmentByOffer(task: TaskHandle, offer: OfferData): Assignment {
  const handoff = { ...offer, to_agent_type: offer.agent_type };
  return { task, offer, handover: { checkpointId: offer.checkpoint.id, prompt: offer.prompt, handoff } };
}

/** `isGiven`: somebody else took or acknowledged it for this agent. */
export function assignmentByName(task: TaskHandle, isGiven: boolean): Assignment {
  const handover = isGiven ? { checkpointId: undefined, prompt: null, handoff: null } : null;
  return { task, offer: null, handover };
}
