/** Runs the helper of the hooks of one user. */
import { runMain } from "../../shared/runtime/process/main.ts";
import { readHookConfig } from "./config.ts";
import { start } from "./hook.ts";
import { openHookLog } from "./hook-log.ts";

const config = readHookConfig(process.env);
await runMain({
  service: "fleet-hook",
  log: openHookLog(config),
  start: (context) => start(context, config),
});
