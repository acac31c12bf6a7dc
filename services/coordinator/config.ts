/** The coordinator's own settings: what a fleet agrees on about its agents. */
import { type AgentRules, agentFields } from "../../shared/service-host/policy-file.ts";

export const coordinatorFields = { ...agentFields } as const;

export type CoordinatorConfig = AgentRules;
