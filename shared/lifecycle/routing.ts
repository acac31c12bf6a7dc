/** Routing: which type of agent continues a task. Decided once, when a handoff is requested. */
import { type Policies, type Policy, policyOf } from "../protocol/policy.ts";

/** What a choice depends on. `to`: the type that the request names. */
export interface Route {
  readonly tenant: string;
  readonly from: string;
  readonly nextPhase: string | null;
  readonly to?: string | null | undefined;
}

/** The type that the request names, else the one that the policy of the current type names for the next phase, else the same type. */
export function nextAgentType({ tenant, from, nextPhase, to }: Route, policies: Policies): string {
  return to ?? typeForPhase(policyOf(policies, tenant, from), nextPhase) ?? from;
}

/** null: the policy names no type for the phase. */
export function typeForPhase(
  { next_agent }: Pick<Policy, "next_agent">,
  phase: string | null,
): string | null {
  const named = next_agent.by_next_phase as Readonly<Record<string, string | undefined>>;
  return phase !== null && Object.hasOwn(named, phase) ? (named[phase] ?? null) : null;
}
