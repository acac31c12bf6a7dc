/** The reader's own settings: what a fleet agrees on about its agents, to say what a recovery would do. */
import { type AgentRules, agentFields } from "../../shared/service-host/policy-file.ts";

export const readerFields = { ...agentFields } as const;

export type ReaderConfig = AgentRules;
