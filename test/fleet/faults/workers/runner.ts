/** Program: a runner wired like its main.ts, on a bus that is recorded. The agents that it starts are processes of their own. */
import { readRunnerConfig } from "../../../../services/runner/config.ts";
import { start } from "../../../../services/runner/runner.ts";
import { STOP_MS_MAX, standOn } from "../../../../services/runner/runner-host.ts";
import { runMain } from "../../../../shared/runtime/process/main.ts";
import { Crew, type CrewArguments } from "../agents/crew.ts";
import { withCalls } from "./calls.ts";

const crew = new Crew(JSON.parse(process.argv[2]!) as CrewArguments);

await runMain({
  service: "faults-runner",
  stopTimeoutMs: STOP_MS_MAX,
  start: async (context) => {
    const config = readRunnerConfig(process.env);
    const standing = await standOn(context, config);
    standing.closers.add("copies", () => crew.leave([]));
    const bus = withCalls(crew.recorder.recorded(standing.bus), crew);
    standing.closers.add("runner", await start({ ...context, config, bus }));
    process.send?.({ ready: true });
    return standing.stop;
  },
});
