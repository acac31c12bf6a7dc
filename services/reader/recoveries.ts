/**
 * The queries about recoveries: the preview of one, and the list of all. An unregistered agent type is
 * refused, as in the command `recover`.
 */

import { nextAgentType } from "../../shared/lifecycle/routing.ts";
import type { Checkpoint } from "../../shared/protocol/checkpoint.ts";
import { nextPhaseOf } from "../../shared/protocol/handoff-record.ts";
import { policyOf } from "../../shared/protocol/policy.ts";
import type { QueryParams, RecoveryPage, RecoveryPreview } from "../../shared/protocol/queries.ts";
import type { Task } from "../../shared/protocol/task.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import { type AgentRules, knownAgentTypes, requireAgentType } from "../../shared/service-host/policy-file.ts";

export interface RecoveryQueries {
  point(tenant: string, query: QueryParams<"recovery_point">): Promise<RecoveryPreview>;
  list(tenant: string, query: QueryParams<"recoveries">): Promise<RecoveryPage>;
}

export function createRecoveryQueries(
  repository: Pick<CheckpointRepository, "recoveryPoint" | "recoveries">,
  { agentTypes, policies }: AgentRules,
): RecoveryQueries {
  const known = knownAgentTypes(agentTypes);

  /** The offer that the coordinator will make. */
  function offerOf(tenant: string, { metadata, execution_state }: Checkpoint, to: string | undefined) {
    const { agent_type: from } = metadata;
    const type = nextAgentType({ tenant, from, nextPhase: nextPhaseOf(execution_state), to }, policies);
    const { max_attempts, deadline_ms } = policyOf(policies, tenant, type).offer;
    return { agent_type: type, is_known: known.has(type), max_attempts, deadline_ms };
  }

  return {
    async point(tenant, query) {
      const { to_agent_type: to } = query;
      requireAgentType("to_agent_type", to, known);
      const found = await repository.recoveryPoint(tenant, query);
      return { ...found, offer: found.checkpoint && offerOf(tenant, found.checkpoint, to) };
    },

    async list(tenant, query) {
      const { agent_type: type } = query;
      requireAgentType("agent_type", type, known);
      const page = await repository.recoveries(tenant, query);
      if (type === undefined) return page;
      return { ...page, tasks: page.tasks.filter((task) => failedType(task) === type) };
    },
  };
}

/** The type of the failed agent, or else of the last writing one. */
function failedType({ recovery, agent_type }: Task): string | null {
  return recovery?.failure?.agent_type ?? agent_type;
}
