// An agent that a runner starts. The name of its task determines whether its work fails or never ends. It records its prompt.
import { runAgent } from "../../../shared/sdk/sdk.ts";

await runAgent({
  type: "implementation",
  async work(run) {
    const [behaviour] = run.taskId.split("-");
    if (behaviour === "again" && run.resumedFrom?.metadata.trigger.reason === "error") return run.done("a");
    run.state.context_summary.assumptions.push(run.prompt ?? "");
    if (behaviour === "limited") {
      run.state.metrics.rate_limit = { resets_at: "2030-01-01T00:00:00Z" };
      throw Object.assign(new Error("too many requests"), { status: 429 });
    }
    if (behaviour === "full") throw Object.assign(new Error("too long"), { code: "context_length_exceeded" });
    if (behaviour === "waiting")
      await new Promise((_, reject) => run.signal.addEventListener("abort", reject));
    throw new Error(behaviour);
  },
});
