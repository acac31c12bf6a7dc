/** The settings of the standalone fleet. */

import { availableParallelism } from "node:os";
import { type ConfigOf, integer, optional, text } from "../../shared/runtime/settings/config.ts";
import { addressFields } from "../../shared/sdk/address.ts";
import { clusterFields, platformFields } from "../../shared/service-host/service-settings.ts";
import { watchdogFields } from "../watchdog/config.ts";
import { writerFields } from "../writer/config.ts";

/** Each thread that has joined takes about 60 MB. More than two pay off only with many cores and many agents. */
const THREADS_MAX_DEFAULT = 2;

export const standaloneFields = {
  ...platformFields,
  ...writerFields,
  ...watchdogFields,
  home: addressFields.home,
  natsPort: integer("FLEET_NATS_PORT", {
    default: 4222,
    min: -1,
    max: 65_535,
    description: "Port of the standalone fleet's bus, on loopback; -1 takes any free one",
  }),
  auth: clusterFields.auth,
  threads: integer("FLEET_THREADS", {
    default: Math.min(THREADS_MAX_DEFAULT, availableParallelism()),
    min: 1,
    max: 64,
    description:
      "Limit of service threads of the standalone fleet; one works, the others join under load; only with a store in LMDB",
    defaultNote: "one per core, at most 2",
  }),
  storeUrl: optional(
    text("FLEET_STORE", {
      description: clusterFields.storeUrl.description,
      defaultNote: "`lmdb:<FLEET_HOME>/store`",
    }),
  ),
} as const;

export type StandaloneConfig = ConfigOf<typeof standaloneFields>;

/** On a terminal only problems are logged, and not every request; a log file gets both. */
export function quietOnTerminal(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return process.stdout.isTTY ? { FLEET_LOG_LEVEL: "warn", ...env } : env;
}
