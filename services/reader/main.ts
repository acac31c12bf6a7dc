/** Runs a reader as a separate process. */

import { runMain } from "../../shared/runtime/process/main.ts";
import { readConfig } from "../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../shared/service-host/platform.ts";
import { clusterFields, platformFields } from "../../shared/service-host/service-settings.ts";
import { readerFields, readReaderConfig } from "./config.ts";
import { start } from "./reader.ts";

await runMain({
  service: "fleet-reader",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...readerFields }, process.env);
    const platform = await openPlatform(context, { service: "reader", ...config });
    platform.closers.add("reader", await start({ ...platform, config: readReaderConfig(config) }));
    platform.markServing();
    return platform.stop;
  },
});
