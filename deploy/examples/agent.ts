/**
 * The smallest agent. Usage: node deploy/examples/agent.ts [task] [fence]
 * Without a task it works on the task of the runner that started it; without a runner it waits for an offer. With a fence, an
 * orchestrator has already taken the task for it.
 */
import { setTimeout as think } from "node:timers/promises";
import { runAgent } from "../../shared/sdk/sdk.ts";

const [task, fence] = process.argv.slice(2);
const stopping = new AbortController();
process.once("SIGTERM", () => stopping.abort());

const ended = await runAgent({
  type: "implementation",
  ...(task !== undefined && { task }),
  ...(fence !== undefined && { fence: Number(fence) }),
  begin: { goal: "Show a handoff", pending_items: ["read", "write", "test", "document"] },
  signal: stopping.signal, // when stopped, the agent hands the task to another one
  onStop: "hand_off",
  async work(run) {
    let contextTokens = 0;
    for (const item of run.items()) {
      await think(400, undefined, { signal: run.signal }); // a model would get run.prompt and work on the item
      contextTokens += 60_000;
      run.usage({ tokensConsumed: contextTokens, contextTokens, contextLimit: 200_000 });
      await run.done(item); // after the second item: one more would fill the context to 90 %, so this hands off and throws
    }
  },
});
console.log(JSON.stringify(ended));
