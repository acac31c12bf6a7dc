/** The settings of the standalone fleet. */

import { availableParallelism } from "node:os";
import { gatewayKeysField } from "../../shared/bus/api-keys.ts";
import { tlsFields } from "../../shared/bus/tls-settings.ts";
import { type ConfigOf, integer, list, optional, text } from "../../shared/runtime/settings/config.ts";
import { HOME_DEFAULT, homeField } from "../../shared/sdk/fleet-home.ts";
import { clusterFields, platformFields } from "../../shared/service-host/service-settings.ts";
import { gatewayFields } from "../gateway/config.ts";
import { watchdogFields } from "../watchdog/config.ts";
import { writerFields } from "../writer/config.ts";

/** Each thread that has joined takes about 60 MB. More than two pay off only with many cores and many agents. */
const THREADS_MAX_DEFAULT = 2;

export const standaloneFields = {
  ...platformFields,
  ...writerFields,
  ...watchdogFields,
  home: text(homeField.name, { default: HOME_DEFAULT, description: homeField.description }),
  natsHost: text("FLEET_NATS_HOST", {
    default: "127.0.0.1",
    description:
      "Address on which the standalone fleet's bus listens; beyond loopback only with TLS and credentials",
  }),
  natsPort: integer("FLEET_NATS_PORT", {
    default: 4222,
    min: -1,
    max: 65_535,
    description: "Port of the standalone fleet's bus; -1 takes any free one",
  }),
  natsCert: optional(
    text("FLEET_NATS_SERVER_CERT", {
      description:
        "Certificate of the standalone fleet's bus, with the certificates between (PEM), or `auto`: the fleet makes its own authority and certificate, and renews it",
    }),
  ),
  natsKey: optional(text("FLEET_NATS_SERVER_KEY", { description: "Key of that certificate (PEM)" })),
  natsName: optional(
    text("FLEET_NATS_SERVER_NAME", {
      description:
        "Host name of this machine that the certificate of the standalone fleet's bus covers; clients of this machine use it",
      defaultNote: "`FLEET_NATS_HOST` if it is a name, else `localhost`",
    }),
  ),
  natsNames: list("FLEET_NATS_SERVER_NAMES", {
    default: [],
    defaultNote: "none",
    description:
      "Further host names and IP addresses in the certificate that the fleet makes, beside those of loopback and of this machine",
  }),
  ...gatewayFields,
  gatewayKeys: gatewayKeysField,
  tlsCa: tlsFields.tlsCa,
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
