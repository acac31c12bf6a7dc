/** Runs a coordinator as a process of its own. */
import { openPlatform } from "../../shared/process/platform.ts";
import { readAgentRules } from "../../shared/process/policy.ts";
import { clusterFields, platformFields } from "../../shared/process/settings.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { runMain } from "../../shared/runtime/main.ts";
import { coordinatorFields } from "./config.ts";
import { start } from "./coordinator.ts";

await runMain({
  service: "fleet-coordinator",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...coordinatorFields }, process.env);
    const rules = readAgentRules(config);
    const platform = await openPlatform(context, { service: "coordinator", ...config });
    platform.closers.add("coordinator", await start({ ...platform, config: rules }));
    return platform.stop;
  },
});
