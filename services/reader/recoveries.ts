/**
 * The queries about recoveries: the preview of one, and the list of all. An unregistered agent type is
 * refused, as in the command `recover`.
 */

import { nextAgentType, type Route } from "../../shared/lifecycle/routing.ts";
import { policyOf } from "../../shared/protocol/policy.ts";
import type { QueryParams } from "../../shared/protocol/queries.ts";
import type { RecoveryPage, RecoveryPreview } from "../../shared/protocol/recovery-queries.ts";
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
  function offerOf(route: Route) {
    const { tenant } = route;
    const type = nextAgentType(route, policies);
    const { max_attempts, deadline_ms } = policyOf(policies, tenant, type).offer;
    return { agent_type: type, is_known: known.has(type), max_attempts, deadline_ms };
  }

  return {
    async point(tenant, query) {
      const { to_agent_type: to } = query;
      requireAgentType("to_agent_type", to, known);
      const { point, nextPhase } = await repository.recoveryPoint(tenant, query);
      const from = point.checkpoint?.metadata.agent_type;
      return { ...point, offer: from === undefined ? null : offerOf({ tenant, from, nextPhase, to }) };
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
