/** A watchdog in a separate process that ends or stops at a kill point; see `kill-points.ts`. */

import { readWatchdogConfig, watchdogFields } from "../../../services/watchdog/config.ts";
import { start } from "../../../services/watchdog/watchdog.ts";
import { runMain } from "../../../shared/runtime/process/main.ts";
import { readConfig } from "../../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../../shared/service-host/platform.ts";
import { agentFields, readAgentRules } from "../../../shared/service-host/policy-file.ts";
import { clusterFields, platformFields } from "../../../shared/service-host/service-settings.ts";
import { killableBus, killableStore } from "./kill-points.ts";

const fields = { ...platformFields, ...clusterFields, ...agentFields, ...watchdogFields };

await runMain({
  service: "fleet-watchdog",
  start: async (context) => {
    const config = readConfig(fields, process.env);
    const platform = await openPlatform(context, { service: "watchdog", ...config });
    const parts = {
      store: killableStore(platform.store),
      backgroundBus: killableBus(platform.backgroundBus),
    };
    const rules = { ...readAgentRules(config), watchdog: readWatchdogConfig(config) };
    platform.closers.add("watchdog", await start({ ...platform, ...parts, config: rules }));
    return platform.stop;
  },
});
