/** The reader's own settings: the rules for the agents of the fleet, for previews of recoveries, and the identity providers of signers. */
import type { EsignIssuerSettings } from "../../shared/protocol/esign-settings.ts";
import type { ConfigOf } from "../../shared/runtime/settings/config.ts";
import { type AgentRules, agentFields, readAgentRules } from "../../shared/service-host/policy-file.ts";
import { esignFields, readEsignIssuers } from "../../shared/service-host/signing/esign-issuers-file.ts";

export const readerFields = { ...agentFields, ...esignFields } as const;

export interface ReaderConfig extends AgentRules {
  /** The identity providers whose people may sign. Absent: none. */
  readonly esign?: readonly EsignIssuerSettings[];
}

/** Throws ConfigError. */
export function readReaderConfig(config: ConfigOf<typeof readerFields>): ReaderConfig {
  return { ...readAgentRules(config), esign: readEsignIssuers(config) };
}
