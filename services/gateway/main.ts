/** Runs a gateway as a separate process. */
import { runMain } from "../../shared/runtime/process/main.ts";
import { readConfig } from "../../shared/runtime/settings/config.ts";
import { gatewayProcessFields } from "./config.ts";
import { startProcess } from "./process.ts";

await runMain({
  service: "fleet-gateway",
  start: (context) => startProcess(context, readConfig(gatewayProcessFields, process.env)),
});
