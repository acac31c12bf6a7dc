/** Runs a runner as a process of its own. */
import { runMain } from "../../shared/runtime/process/main.ts";
import { readRunnerConfig } from "./config.ts";
import { start } from "./runner.ts";
import { STOP_MS_MAX, standOn } from "./runner-host.ts";

await runMain({
  service: "fleet-runner",
  // How long its agents get is in its settings, which are not read yet.
  stopTimeoutMs: STOP_MS_MAX,
  start: async (context) => {
    const config = readRunnerConfig(process.env);
    const standing = await standOn(context, config);
    standing.closers.add("runner", await start({ ...context, config, bus: standing.bus }));
    return standing.stop;
  },
});
