/** Runs a writer as a process of its own. */
import { openPlatform } from "../../shared/process/platform.ts";
import { readAgentRules } from "../../shared/process/policy.ts";
import { clusterFields, platformFields } from "../../shared/process/settings.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { runMain } from "../../shared/runtime/main.ts";
import { writerFields } from "./config.ts";
import { start } from "./writer.ts";

await runMain({
  service: "fleet-writer",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...writerFields }, process.env);
    const rules = readAgentRules(config);
    const platform = await openPlatform(context, { service: "writer", ...config });
    platform.closers.add("writer", await start({ ...platform, config: rules }));
    return platform.stop;
  },
});
