// An agent as a process of its own, which does as it is told in its argument: it completes so many items of its task, then goes on, waits
// for ever, throws, or ends. One line of JSON for each thing that happens to it.

import { connect, FleetError, runAgent } from "../../../shared/sdk/sdk.ts";

export interface Recoverable {
  readonly url: string;
  readonly agentId: string;
  readonly tenant?: string;
  /** undefined: it waits for an offer. */
  readonly task?: string;
  /** Items that a task which begins has. */
  readonly items?: number;
  /** After so many items of its own. Default: after all. */
  readonly until?: number;
  readonly after?: "wait" | "throw" | "exit" | "step";
  readonly heartbeatMs?: number;
  readonly pauseMs?: number;
}

const told = JSON.parse(process.argv[2] ?? "{}") as Recoverable;
const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
const { url, agentId, tenant = "default", task, items = 3, until, heartbeatMs = 200, pauseMs = 0 } = told;
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
      say({
        began: { task: run.taskId, fence: run.fence, resumedFrom, recovery: run.offer?.recovery ?? null },
      });
      let done = 0;
      for (const item of run.items()) {
        if (done === until) break;
        await run.done(item);
        done += 1;
        say({ done: item.title });
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      if (until === undefined || done < until) return;
      if (told.after === "throw") throw new Error("as it was told");
      if (told.after === "exit") process.exit(0);
      if (told.after === "step") await run.beforeLong("as it was told", { withinMs: 300 });
      say({ waiting: true });
      await new Promise((_, reject) => run.signal.addEventListener("abort", () => reject(run.signal.reason)));
    },
  });
  say({ outcome });
} catch (error) {
  say({ failed: error instanceof FleetError ? error.code : String(error) });
} finally {
  await fleet.close();
}
