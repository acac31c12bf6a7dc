/** Program: a runner composed like its main.ts, on a recorded bus. It starts its agents as separate processes. */
import { readRunnerConfig } from "../../../../services/runner/config.ts";
import { start } from "../../../../services/runner/runner.ts";
import { openRunnerHost, STOP_MS_MAX } from "../../../../services/runner/runner-host.ts";
import { runMain } from "../../../../shared/runtime/process/main.ts";
import { AgentGroup, type AgentGroupArguments } from "../agents/agent-group.ts";
import { withCalls } from "./calls.ts";

const group = new AgentGroup(JSON.parse(process.argv[2]!) as AgentGroupArguments);

await runMain({
  service: "faults-runner",
  stopTimeoutMs: STOP_MS_MAX,
  start: async (context) => {
    const config = readRunnerConfig(process.env);
    const host = await openRunnerHost(context, config);
    host.closers.add("copies", () => group.stop([]));
    const bus = withCalls(group.recorder.recorded(host.bus), group);
    host.closers.add("runner", await start({ ...context, config, bus, credentialsSource: "none" }));
    process.send?.({ ready: true });
    return host.stop;
  },
});
