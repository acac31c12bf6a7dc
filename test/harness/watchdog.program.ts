/** A watchdog in a process of its own that dies or freezes at a chosen moment, in the words of `dying.ts`. */

import { readWatchdogConfig, watchdogFields } from "../../services/watchdog/config.ts";
import { start } from "../../services/watchdog/watchdog.ts";
import { openPlatform } from "../../shared/process/platform.ts";
import { agentFields, readAgentRules } from "../../shared/process/policy.ts";
import { clusterFields, platformFields } from "../../shared/process/settings.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { runMain } from "../../shared/runtime/main.ts";
import { dyingBus, dyingStore } from "./dying.ts";

const fields = { ...platformFields, ...clusterFields, ...agentFields, ...watchdogFields };

await runMain({
  service: "fleet-watchdog",
  start: async (context) => {
    const config = readConfig(fields, process.env);
    const platform = await openPlatform(context, { service: "watchdog", ...config });
    const parts = { store: dyingStore(platform.store), backgroundBus: dyingBus(platform.backgroundBus) };
    const rules = { ...readAgentRules(config), watchdog: readWatchdogConfig(config) };
    platform.closers.add("watchdog", await start({ ...platform, ...parts, config: rules }));
    return platform.stop;
  },
});
