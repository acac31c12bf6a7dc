/** The writer's own settings: what a fleet agrees on about its agents. */
import { type AgentRules, agentFields } from "../../shared/process/policy.ts";

export const writerFields = { ...agentFields } as const;

export type WriterConfig = AgentRules;
