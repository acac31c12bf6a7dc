/** The reader's own settings: the rules for the agents of the fleet, for previews of recoveries. */
import { type AgentRules, agentFields } from "../../shared/service-host/policy-file.ts";

export const readerFields = { ...agentFields } as const;

export type ReaderConfig = AgentRules;
