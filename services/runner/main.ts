/** Runs a runner as a process of its own. */
import { runMain } from "../../shared/runtime/process/main.ts";
import { readRunnerConfig } from "./config.ts";
import { start } from "./runner.ts";
import { openRunnerHost, STOP_MS_MAX } from "./runner-host.ts";

await runMain({
  service: "fleet-runner",
  // The settings, which are not read yet, say how long its agents get.
  stopTimeoutMs: STOP_MS_MAX,
  start: async (context) => {
    const config = readRunnerConfig(process.env);
    const host = await openRunnerHost(context, config);
    host.closers.add(
      "runner",
      await start({ ...context, config, bus: host.bus, credentialsSource: host.credentialsSource }),
    );
    return host.stop;
  },
});
