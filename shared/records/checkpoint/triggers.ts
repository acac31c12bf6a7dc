/**
 * The writer's evaluation of triggers: on the contents of a checkpoint, with the thresholds of its tenant and
 * agent type. The fired triggers replace those in the author's checkpoint before the seal, and are part of
 * the answer.
 */
import type { FiredTrigger, UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import { type Policies, policyOf } from "../../protocol/policy.ts";
import { evaluateTriggers, signsOf, type TriggerThresholds } from "../../protocol/triggers.ts";

export type ThresholdsOf = (tenant: string, agentType: string) => TriggerThresholds;

/** The part of an answer that advises a handoff. */
export type Advice = { readonly handoff_advised?: FiredTrigger[] };

const REMEMBERED_MAX = 10_000;

/** Caches the thresholds, which every write needs. */
export function thresholdsIn(policies: Policies): ThresholdsOf {
  const known = new Map<string, TriggerThresholds>();
  return (tenant, agentType) => {
    const name = `${tenant}/${agentType}`;
    const found = known.get(name);
    if (found !== undefined) return found;
    const { triggers } = policyOf(policies, tenant, agentType);
    if (known.size >= REMEMBERED_MAX) known.clear();
    known.set(name, triggers);
    return triggers;
  };
}

/**
 * The checkpoint with the triggers that fire now, instead of those of an earlier version or of its author.
 */
export function withTriggers(checkpoint: UnsealedCheckpoint, thresholdsOf: ThresholdsOf): UnsealedCheckpoint {
  const { tenant, agent_type, handoff_triggers: before } = checkpoint.metadata;
  const fired = evaluateTriggers(signsOf(checkpoint), thresholdsOf(tenant, agent_type));
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
