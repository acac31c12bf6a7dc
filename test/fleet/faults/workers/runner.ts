/**
 * Program: a runner of this tree or of the previous release, composed like its main.ts, on a recorded bus. It starts its agents as separate
 * processes.
 */
import { projectRoot } from "../../../harness/project-root.ts";
import { AgentGroup, type AgentGroupArguments } from "../agents/agent-group.ts";
import { loadFrom } from "../agents/sdk-tree.ts";
import { withCalls } from "./calls.ts";

const o = JSON.parse(process.argv[2]!) as AgentGroupArguments;
const { sdkTree: tree = projectRoot } = o;
const group = new AgentGroup(o);

const { readRunnerConfig } = await loadFrom<typeof import("../../../../services/runner/config.ts")>(
  tree,
  "services/runner/config.ts",
);
const { start } = await loadFrom<typeof import("../../../../services/runner/runner.ts")>(
  tree,
  "services/runner/runner.ts",
);
const { openRunnerHost, STOP_MS_MAX } = await loadFrom<
  typeof import("../../../../services/runner/runner-host.ts")
>(tree, "services/runner/runner-host.ts");
const { runMain } = await loadFrom<typeof import("../../../../shared/runtime/process/main.ts")>(
  tree,
  "shared/runtime/process/main.ts",
);

await runMain({
  service: "faults-runner",
  stopTimeoutMs: STOP_MS_MAX,
  start: async (context) => {
    const config = readRunnerConfig(process.env);
    const host = await openRunnerHost(context, config);
    host.closers.add("copies", () => group.stop([]));
    const bus = withCalls(group.recorder.recorded(host.bus), group);
    // Without credentials of its own it has none for its agents.
    const credentialsSource = o.keysFolder === undefined ? "none" : host.credentialsSource;
    host.closers.add("runner", await start({ ...context, config, bus, credentialsSource }));
    process.send?.({ ready: true });
    return host.stop;
  },
});
