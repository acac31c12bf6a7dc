/** Runs a coordinator as its own process. */

import { runMain } from "../../shared/runtime/process/main.ts";
import { readConfig } from "../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../shared/service-host/platform.ts";
import { readAgentRules } from "../../shared/service-host/policy-file.ts";
import { reserveStore } from "../../shared/service-host/reserve-store.ts";
import { clusterFields, platformFields } from "../../shared/service-host/service-settings.ts";
import { coordinatorFields } from "./config.ts";
import { start } from "./coordinator.ts";
import { PromptThread } from "./prompt-thread.ts";

await runMain({
  service: "fleet-coordinator",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...coordinatorFields }, process.env);
    const rules = readAgentRules(config);
    const platform = await openPlatform(context, { service: "coordinator", ...config });
    const store = reserveStore(platform.store, platform.disk);
    const prompts = new PromptThread();
    platform.closers.add("prompts", () => prompts.close());
    platform.closers.add("coordinator", await start({ ...platform, store, prompts, config: rules }));
    platform.markServing();
    return platform.stop;
  },
});
