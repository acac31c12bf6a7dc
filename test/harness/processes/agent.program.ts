// A scripted agent in a separate process: it completes a number of items of its task and then waits for ever, throws or ends. It
// writes one line of JSON for each event. Its script is its argument.

import { connect, FleetError, runAgent } from "../../../shared/sdk/sdk.ts";

export interface AgentScript {
  readonly url: string;
  readonly agentId: string;
  readonly tenant?: string;
  /** Undefined: the agent waits for an offer. */
  readonly task?: string;
  /** The number of items of a new task. */
  readonly items?: number;
  /** The number of items that the agent completes before `after` applies. Default: all. */
  readonly until?: number;
  readonly after?: "wait" | "throw" | "exit" | "step";
  readonly heartbeatMs?: number;
  readonly pauseMs?: number;
}

const script = JSON.parse(process.argv[2] ?? "{}") as AgentScript;
const print = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
const { url, agentId, tenant = "default", task, items = 3, until, heartbeatMs = 200, pauseMs = 0 } = script;
const fleet = await connect({ url, agentId, tenant, fallback: "none", onWarning: () => {} });
const pending = Array.from({ length: items }, (_, i) => ({ title: `item ${i + 1}` }));
try {
  const { outcome } = await runAgent({
    type: "implementation",
    fleet,
    heartbeatMs,
    ...(task !== undefined && { task }),
    begin: { phase: "implementing", pending_items: pending },
    checkpoints: { items: 1 },
    async work(run) {
      const resumedFrom = run.resumedFrom?.metadata.checkpoint_id ?? null;
      print({
        began: { task: run.taskId, fence: run.fence, resumedFrom, recovery: run.offer?.recovery ?? null },
      });
      let done = 0;
      for (const item of run.items()) {
        if (done === until) break;
        await run.done(item);
        done += 1;
        print({ done: item.title });
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      if (until === undefined || done < until) return;
      if (script.after === "throw") throw new Error("the script ends with an error");
      if (script.after === "exit") process.exit(0);
      if (script.after === "step") await run.beforeLong("a step of the script", { withinMs: 300 });
      print({ waiting: true });
      await new Promise((_, reject) => run.signal.addEventListener("abort", () => reject(run.signal.reason)));
    },
  });
  print({ outcome });
} catch (error) {
  print({ failed: error instanceof FleetError ? error.code : String(error) });
} finally {
  await fleet.close();
}
