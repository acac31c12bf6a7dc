/** Runs a watchdog as a process of its own. */

import { runMain } from "../../shared/runtime/process/main.ts";
import { integer, readConfig } from "../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../shared/service-host/platform.ts";
import { agentFields, readAgentRules } from "../../shared/service-host/policy-file.ts";
import { clusterFields, platformFields } from "../../shared/service-host/service-settings.ts";
import { readWatchdogConfig, watchdogFields } from "./config.ts";
import { start } from "./watchdog.ts";

const opsPort = integer("FLEET_OPS_PORT", {
  default: 4282,
  min: 0,
  max: 65_535,
  description: "Port of /metrics, /healthz and /readyz; 0 takes any free one",
});
const fields = { ...platformFields, ...clusterFields, ...agentFields, ...watchdogFields, opsPort };

await runMain({
  service: "fleet-watchdog",
  start: async (context) => {
    const config = readConfig(fields, process.env);
    const rules = { ...readAgentRules(config), watchdog: readWatchdogConfig(config) };
    const platform = await openPlatform(context, { service: "watchdog", ...config });
    platform.closers.add("watchdog", await start({ ...platform, config: rules }));
    return platform.stop;
  },
});
