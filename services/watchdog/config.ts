/** The watchdog's own settings. */
import { type ConfigOf, duration, integer, orOff } from "../../shared/runtime/settings/config.ts";
import { readWebhooks, type Webhook, webhookFields } from "./webhooks/webhook-settings.ts";

export const watchdogFields = {
  recoveriesMax: integer("FLEET_RECOVERIES_MAX", {
    default: 256,
    min: 1,
    max: 100_000,
    description:
      "Attempts at recovery that may be under way at once in the whole fleet, half of them for one agent type; further ones wait",
  }),
  scrubRate: integer("FLEET_SCRUB_RATE", {
    default: 4_000_000,
    min: 10_000,
    description: "Bytes per second that the scrubber reads at most",
  }),
  scrubEvery: orOff(
    duration("FLEET_SCRUB_EVERY", {
      default: "24h",
      min: "1s",
      description: "From the beginning of one pass of the scrubber to that of the next; off: only when asked",
    }),
  ),
  ...webhookFields,
} as const;

export interface WatchdogConfig extends Omit<ConfigOf<typeof watchdogFields>, keyof typeof webhookFields> {
  readonly webhooks: readonly Webhook[];
}

/** Throws ConfigError with everything that is wrong in the file of webhooks. */
export function readWatchdogConfig(config: ConfigOf<typeof watchdogFields>): WatchdogConfig {
  const { webhooksFile, recoveriesMax, scrubRate, scrubEvery } = config;
  return { recoveriesMax, scrubRate, scrubEvery, webhooks: readWebhooks(webhooksFile) };
}
