/** Runs a watchdog as its own process. */
import { runMain } from "../../shared/runtime/process/main.ts";
import { readConfig } from "../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../shared/service-host/platform.ts";
import { agentFields, readAgentRules } from "../../shared/service-host/policy-file.ts";
import { reserveStore } from "../../shared/service-host/reserve-store.ts";
import { clusterFields, platformFields } from "../../shared/service-host/service-settings.ts";
import { readWatchdogConfig, watchdogFields, watchdogOpsPort } from "./config.ts";
import { start } from "./watchdog.ts";

const fields = {
  ...platformFields,
  ...clusterFields,
  ...agentFields,
  ...watchdogFields,
  opsPort: watchdogOpsPort,
};

await runMain({
  service: "fleet-watchdog",
  start: async (context) => {
    const config = readConfig(fields, process.env);
    const rules = { ...readAgentRules(config), watchdog: readWatchdogConfig(config) };
    const platform = await openPlatform(context, { service: "watchdog", ...config });
    const store = reserveStore(platform.store, platform.disk);
    platform.closers.add("watchdog", await start({ ...platform, store, config: rules }));
    platform.markServing();
    return platform.stop;
  },
});
