/**
 * The writer's evaluation of triggers: on the contents of a checkpoint, with the thresholds of its tenant and
 * agent type. The fired triggers replace those in the author's checkpoint before the seal, and are part of
 * the answer.
 */
import type { FiredTrigger, UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import { type Policies, policyOf } from "../../protocol/policy.ts";
import { evaluateTriggers, signsOf } from "../../protocol/triggers.ts";

/** The part of an answer that advises a handoff. */
export type Advice = { readonly handoff_advised?: FiredTrigger[] };

/**
 * The checkpoint with the triggers that fire now, instead of those of an earlier version or of its author.
 */
export function withTriggers(checkpoint: UnsealedCheckpoint, policies: Policies): UnsealedCheckpoint {
  const { tenant, agent_type, handoff_triggers: before } = checkpoint.metadata;
  const fired = evaluateTriggers(signsOf(checkpoint), policyOf(policies, tenant, agent_type).triggers);
  if (fired.length > 0) {
    return { ...checkpoint, metadata: { ...checkpoint.metadata, handoff_triggers: fired } };
  }
  if (before === undefined) return checkpoint;
  const { handoff_triggers: _before, ...metadata } = checkpoint.metadata;
  return { ...checkpoint, metadata };
}

/** Empty for a checkpoint that opens a handoff itself. */
export function advisedBy({ execution_state, metadata }: UnsealedCheckpoint): Advice {
  const { handoff_triggers: fired } = metadata;
  return fired === undefined || execution_state.phase === "handoff" ? {} : { handoff_advised: fired };
}
