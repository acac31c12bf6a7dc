/** Program: a runner wired like its main.ts, on a bus that is recorded. The agents that it starts are processes of their own. */
import { readRunnerConfig } from "../../../../services/runner/config.ts";
import { start } from "../../../../services/runner/runner.ts";
import { openRunnerHost, STOP_MS_MAX } from "../../../../services/runner/runner-host.ts";
import { runMain } from "../../../../shared/runtime/process/main.ts";
import { Crew, type CrewArguments } from "../agents/crew.ts";
import { withCalls } from "./calls.ts";

const crew = new Crew(JSON.parse(process.argv[2]!) as CrewArguments);

await runMain({
  service: "faults-runner",
  stopTimeoutMs: STOP_MS_MAX,
  start: async (context) => {
    const config = readRunnerConfig(process.env);
    const host = await openRunnerHost(context, config);
    host.closers.add("copies", () => crew.leave([]));
    const bus = withCalls(crew.recorder.recorded(host.bus), crew);
    host.closers.add("runner", await start({ ...context, config, bus }));
    process.send?.({ ready: true });
    return host.stop;
  },
});
