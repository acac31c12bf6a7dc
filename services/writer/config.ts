/** The writer's own settings: what a fleet agrees on about its agents. */
import { type AgentRules, agentFields } from "../../shared/service-host/policy-file.ts";

export const writerFields = { ...agentFields } as const;

export type WriterConfig = AgentRules;
