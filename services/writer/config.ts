/** The settings of the writer. */

import type { EsignIssuerSettings } from "../../shared/protocol/esign-settings.ts";
import { type ConfigOf, duration, orOff } from "../../shared/runtime/settings/config.ts";
import { type AgentRules, agentFields, readAgentRules } from "../../shared/service-host/policy-file.ts";
import { esignFields, readEsignIssuers } from "../../shared/service-host/signing/esign-issuers-file.ts";

export const writerFields = {
  ...agentFields,
  ...esignFields,
  finalizeDraftsAfter: orOff(
    duration("FLEET_FINALIZE_DRAFTS_AFTER", {
      default: "15m",
      min: "1s",
      description:
        "Time from the next checkpoint of a task to the finalization of the draft before it; off: drafts stay drafts",
    }),
  ),
  retentionEvery: orOff(
    duration("FLEET_RETENTION_EVERY", {
      default: "24h",
      min: "1s",
      description:
        "Time between two passes that remove old checkpoints, after the one at the start; off: nothing is removed by itself",
    }),
  ),
} as const;

export interface WriterConfig extends AgentRules {
  /** In milliseconds; null: drafts stay drafts. */
  readonly finalizeDraftsAfter: number | null;
  /** In milliseconds; null: nothing is removed by itself. */
  readonly retentionEvery: number | null;
  /** The identity providers whose people may sign. Absent: none. */
  readonly esign?: readonly EsignIssuerSettings[];
}

/** Throws ConfigError. */
export function readWriterConfig(config: ConfigOf<typeof writerFields>): WriterConfig {
  const { finalizeDraftsAfter, retentionEvery } = config;
  return {
    ...readAgentRules(config),
    finalizeDraftsAfter,
    retentionEvery,
    esign: readEsignIssuers(config),
  };
}
