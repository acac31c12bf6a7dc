/** Runs a reader as a process of its own. */
import { openPlatform } from "../../shared/process/platform.ts";
import { readAgentRules } from "../../shared/process/policy.ts";
import { clusterFields, platformFields } from "../../shared/process/settings.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { runMain } from "../../shared/runtime/main.ts";
import { readerFields } from "./config.ts";
import { start } from "./reader.ts";

await runMain({
  service: "fleet-reader",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...readerFields }, process.env);
    const platform = await openPlatform(context, { service: "reader", ...config });
    platform.closers.add("reader", await start({ ...platform, config: readAgentRules(config) }));
    return platform.stop;
  },
});
