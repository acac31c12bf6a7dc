/** Runs a writer as a separate process. */

import { runMain } from "../../shared/runtime/process/main.ts";
import { readConfig } from "../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../shared/service-host/platform.ts";
import { clusterFields, platformFields } from "../../shared/service-host/service-settings.ts";
import { readWriterConfig, writerFields } from "./config.ts";
import { start } from "./writer.ts";

await runMain({
  service: "fleet-writer",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...writerFields }, process.env);
    const writerConfig = readWriterConfig(config);
    const platform = await openPlatform(context, { service: "writer", ...config });
    platform.closers.add("writer", await start({ ...platform, config: writerConfig }));
    platform.markServing();
    return platform.stop;
  },
});
