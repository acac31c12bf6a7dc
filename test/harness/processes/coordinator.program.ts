/** A coordinator in a process of its own that dies at a chosen moment, in the words of `dying.ts`. */

import { coordinatorFields } from "../../../services/coordinator/config.ts";
import { start } from "../../../services/coordinator/coordinator.ts";
import { runMain } from "../../../shared/runtime/process/main.ts";
import { readConfig } from "../../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../../shared/service-host/platform.ts";
import { readAgentRules } from "../../../shared/service-host/policy-file.ts";
import { clusterFields, platformFields } from "../../../shared/service-host/service-settings.ts";
import { dyingBus, dyingStore } from "./kill-switch.ts";

await runMain({
  service: "fleet-coordinator",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...coordinatorFields }, process.env);
    const platform = await openPlatform(context, { service: "coordinator", ...config });
    const parts = { store: dyingStore(platform.store), backgroundBus: dyingBus(platform.backgroundBus) };
    platform.closers.add(
      "coordinator",
      await start({ ...platform, ...parts, config: readAgentRules(config) }),
    );
    return platform.stop;
  },
});
