/** Routing: which type of agent continues a task. Decided once, when a handoff is requested. */
import type { UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import { nextPhaseOf } from "../protocol/handoff-record.ts";
import { type Policies, type Policy, policyOf } from "../protocol/policy.ts";
import type { RecoveryChoice } from "../protocol/recovery-record.ts";
import type { TaskRecord } from "./task.ts";

/** The inputs of a choice. `to`: the type that the request names. */
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

/** The other type to which the policy hands a task that an agent of type `from` has completed; null: the task ends. */
export function typeAfterCompletion(policies: Policies, tenant: string, from: string): string | null {
  const policy = policyOf(policies, tenant, from);
  const type = policy.triggers.task_complete ? typeForPhase(policy, "complete") : null;
  return type === from ? null : type;
}

/**
 * The type that was chosen for an attempt at recovery; null: that of the policy. The failure of an agent chooses its own type again,
 * which must not be the author's type if the completed checkpoint waits for the next type.
 */
export function recoveryType(
  { completion_seq }: Pick<TaskRecord, "completion_seq">,
  metadata: Pick<UnsealedCheckpoint["metadata"], "seq" | "agent_type">,
  choice: RecoveryChoice | null,
): string | null {
  const type = choice?.to_agent_type ?? null;
  const isByOperator = choice !== null && choice.by !== null;
  const isAuthors = metadata.seq === completion_seq && type === metadata.agent_type;
  return isAuthors && !isByOperator ? null : type;
}

/**
 * The next phase of an attempt at recovery. From the checkpoint that was handed off on completion, the attempt goes to the type that
 * the policy names for phase `complete`, not to the author's type again.
 */
export function recoveryPhase(
  { completion_seq }: Pick<TaskRecord, "completion_seq">,
  { metadata, execution_state }: UnsealedCheckpoint,
): ReturnType<typeof nextPhaseOf> {
  return metadata.seq === completion_seq ? "complete" : nextPhaseOf(execution_state);
}

/**
 * The type to which an attempt at recovery from the newest checkpoint goes, by the head of the task alone; null: the recovery point
 * decides, with the policy.
 */
export function expectedRecoveryType(
  task: Pick<TaskRecord, "completion_seq" | "seq" | "agent_type" | "phase" | "latest_id" | "budget">,
): string | null {
  const { completion_seq, seq, agent_type: author, phase, latest_id: latestId, budget } = task;
  const choice = budget?.choice ?? null;
  if (author === null) return choice?.to_agent_type ?? null;
  const type = recoveryType(task, { seq, agent_type: author }, choice);
  const fromId = choice?.checkpoint_id ?? latestId;
  const isFromNewest = budget?.rung !== "previous" && fromId === latestId;
  // The checkpoint, which the head lacks, names the next phase.
  const isForNextPhase = phase === "handoff" || seq === completion_seq;
  return type ?? (isFromNewest && !isForNextPhase ? author : null);
}
