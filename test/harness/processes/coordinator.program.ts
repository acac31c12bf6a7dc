/** A coordinator in a separate process that ends at a kill point; see `kill-points.ts`. */

import { coordinatorFields } from "../../../services/coordinator/config.ts";
import { start } from "../../../services/coordinator/coordinator.ts";
import { PromptThread } from "../../../services/coordinator/prompt-thread.ts";
import { runMain } from "../../../shared/runtime/process/main.ts";
import { readConfig } from "../../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../../shared/service-host/platform.ts";
import { readAgentRules } from "../../../shared/service-host/policy-file.ts";
import { clusterFields, platformFields } from "../../../shared/service-host/service-settings.ts";
import { killableBus, killableStore } from "./kill-points.ts";

await runMain({
  service: "fleet-coordinator",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...coordinatorFields }, process.env);
    const platform = await openPlatform(context, { service: "coordinator", ...config });
    const parts = {
      store: killableStore(platform.store),
      backgroundBus: killableBus(platform.backgroundBus),
    };
    const prompts = new PromptThread();
    platform.closers.add("prompts", () => prompts.close());
    platform.closers.add(
      "coordinator",
      await start({ ...platform, ...parts, prompts, config: readAgentRules(config) }),
    );
    return platform.stop;
  },
});
