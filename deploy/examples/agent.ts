/**
 * The smallest agent. Usage: node deploy/examples/agent.ts [task] [fence]
 * Without a task it waits for an offer; a fence says that the task was taken for it already, by an orchestrator.
 */
import { setTimeout as think } from "node:timers/promises";
import { runAgent } from "../../shared/sdk/sdk.ts";

const [task, fence] = process.argv.slice(2);

const ended = await runAgent({
  type: "implementation",
  ...(task !== undefined && { task }),
  ...(fence !== undefined && { fence: Number(fence) }),
  begin: { goal: "Show a handoff", pending_items: ["read", "write", "test", "document"] },
  async work(run) {
    let tokensConsumed = 0;
    for (const item of run.items()) {
      await think(50, undefined, { signal: run.signal }); // a model would be told run.prompt, and work on the item
      tokensConsumed += 60_000;
      run.usage({ tokensConsumed, contextLimit: 200_000 });
      await run.done(item); // at the third item the context is 90 % full: the task is handed off, and this throws
    }
  },
});
console.log(JSON.stringify(ended));
