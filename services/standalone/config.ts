/** Settings of the standalone fleet. */

import { platformFields } from "../../shared/process/platform.ts";
import { type ConfigOf, integer, optional, text } from "../../shared/runtime/config.ts";
import { writerFields } from "../writer/config.ts";

export const standaloneFields = {
  ...platformFields,
  ...writerFields,
  home: text("FLEET_HOME", { default: ".fleet", description: "Where the standalone fleet keeps everything" }),
  natsPort: integer("FLEET_NATS_PORT", {
    default: 4222,
    min: -1,
    max: 65_535,
    description: "Port of the standalone fleet's bus, on loopback; -1 takes any free one",
  }),
  storeUrl: optional(
    text("FLEET_STORE", { description: "Default of the standalone fleet: lmdb:<FLEET_HOME>/store" }),
  ),
} as const;

export type StandaloneConfig = ConfigOf<typeof standaloneFields>;

/** A person at a terminal wants to see what is wrong, not a line for each request; a log file wants both. */
export function quietOnTerminal(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return process.stdout.isTTY ? { FLEET_LOG_LEVEL: "warn", ...env } : env;
}
