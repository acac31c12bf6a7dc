/** The coordinator's settings: the agent types of the fleet and their policies. */
import { type AgentRules, agentFields } from "../../shared/service-host/policy-file.ts";

export const coordinatorFields = { ...agentFields } as const;

export type CoordinatorConfig = AgentRules;
