/** A writer in a separate process that ends at a kill point; see `kill-points.ts`. With FLEET_TEST_OUTAGE=yes its store is unavailable. */

import { readWriterConfig, writerFields } from "../../../services/writer/config.ts";
import { start } from "../../../services/writer/writer.ts";
import { runMain } from "../../../shared/runtime/process/main.ts";
import { readConfig } from "../../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../../shared/service-host/platform.ts";
import { clusterFields, platformFields } from "../../../shared/service-host/service-settings.ts";
import { outageStore } from "../stores/outage-store.ts";
import { killableBus, killableStore } from "./kill-points.ts";

await runMain({
  service: "fleet-writer",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...writerFields }, process.env);
    const platform = await openPlatform(context, { service: "writer", ...config });
    const outage = process.env.FLEET_TEST_OUTAGE === "yes" ? "refuses" : "none";
    const parts = {
      store: killableStore(outageStore(platform.store, () => outage)),
      bus: killableBus(platform.bus),
      backgroundBus: killableBus(platform.backgroundBus),
    };
    platform.closers.add("writer", await start({ ...platform, ...parts, config: readWriterConfig(config) }));
    process.stdout.write("writer started\n");
    return platform.stop;
  },
});
