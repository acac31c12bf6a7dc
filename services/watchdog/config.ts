/** The settings of the watchdog. */
import { type ConfigOf, duration, integer, orOff } from "../../shared/runtime/settings/config.ts";
import { opsPortField } from "../../shared/runtime/settings/process-settings.ts";
import { type AnchorSettings, anchorFields, readAnchorSettings } from "./anchors/anchor-settings.ts";
import { readWebhooks, type Webhook, webhookFields } from "./webhooks/webhook-settings.ts";

export const watchdogFields = {
  recoveriesMax: integer("FLEET_RECOVERIES_MAX", {
    default: 256,
    min: 1,
    max: 100_000,
    description:
      "Limit of concurrent recovery attempts in the whole fleet; one agent type may use half of it",
  }),
  missionSilence: duration("FLEET_MISSION_SILENCE", {
    default: "5m",
    min: "1s",
    description:
      "Time without activity after which the coordinator of a mission counts as having lost its context",
  }),
  scrubRate: integer("FLEET_SCRUB_RATE", {
    default: 4_000_000,
    min: 10_000,
    description: "Highest rate at which a scrub reads, in bytes per second",
  }),
  scrubEvery: orOff(
    duration("FLEET_SCRUB_EVERY", {
      default: "24h",
      min: "1s",
      description: "Time from the start of one scrub to the start of the next; off: only on request",
    }),
  ),
  ...webhookFields,
  ...anchorFields,
} as const;

/** A watchdog in its own process may run beside a standalone fleet. */
export const watchdogOpsPort = opsPortField(4282);

export interface WatchdogConfig
  extends Omit<ConfigOf<typeof watchdogFields>, keyof typeof webhookFields | keyof typeof anchorFields> {
  readonly webhooks: readonly Webhook[];
  readonly anchors: AnchorSettings;
}

/** Throws ConfigError with all problems of a file that they name. */
export function readWatchdogConfig(config: ConfigOf<typeof watchdogFields>): WatchdogConfig {
  const { webhooksFile, recoveriesMax, missionSilence, scrubRate, scrubEvery } = config;
  return {
    ...{ recoveriesMax, missionSilence, scrubRate, scrubEvery },
    webhooks: readWebhooks(webhooksFile),
    anchors: readAnchorSettings(config),
  };
}
