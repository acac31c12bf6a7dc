/** A coordinator whose wall clock is FLEET_TEST_SKEW_MS ahead, as on a machine without time synchronisation. */

import { coordinatorFields } from "../../../services/coordinator/config.ts";
import { start } from "../../../services/coordinator/coordinator.ts";
import { PromptThread } from "../../../services/coordinator/prompt-thread.ts";
import { clockFrom } from "../../../shared/runtime/clock.ts";
import { runMain } from "../../../shared/runtime/process/main.ts";
import { readConfig } from "../../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../../shared/service-host/platform.ts";
import { readAgentRules } from "../../../shared/service-host/policy-file.ts";
import { clusterFields, platformFields } from "../../../shared/service-host/service-settings.ts";

const fields = { ...platformFields, ...clusterFields, ...coordinatorFields };
const skewMs = Number(process.env.FLEET_TEST_SKEW_MS);

await runMain({
  service: "fleet-coordinator",
  start: async (context) => {
    const config = readConfig(fields, process.env);
    const clock = clockFrom({
      now: () => Date.now() + skewMs,
      monotonic: () => performance.now(),
      after(ms, callback) {
        const timer = setTimeout(callback, ms);
        return () => clearTimeout(timer);
      },
    });
    const platform = await openPlatform({ ...context, clock }, { service: "coordinator", ...config });
    const prompts = new PromptThread();
    platform.closers.add("prompts", () => prompts.close());
    platform.closers.add(
      "coordinator",
      await start({ ...platform, prompts, config: readAgentRules(config) }),
    );
    return platform.stop;
  },
});
