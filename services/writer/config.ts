/** The writer's own settings: the rules for the agents of the fleet. */
import { type AgentRules, agentFields } from "../../shared/service-host/policy-file.ts";

export const writerFields = { ...agentFields } as const;

export type WriterConfig = AgentRules;
