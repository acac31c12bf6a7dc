// Program: an agent that works through the items of one task and loses its life at a given point, or its context again and again. Its work
// on an item is a file, and a line in a log that shows whether an item was done twice. It prints what it finds and does as JSON lines.

import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AgentRun, connect, runAgent } from "../../../shared/sdk/sdk.ts";
import { seededRandom } from "../workload.ts";

export interface ContinuityAgent {
  readonly url: string;
  readonly task: string;
  readonly agentId: string;
  readonly folder: string;
  readonly items: number;
  /** The point at which the process kills itself; null: never. */
  readonly death: { readonly item: number; readonly point: DeathPoint } | null;
  /** The tokens that an agent's context holds; each item takes 3 to 9 % of 100,000. */
  readonly contextLimit: number;
}
export type DeathPoint = "before the work" | "before its report" | "after its report";

export type ContinuityMessage =
  /** The run continues from a checkpoint; `found`: its completed items. */
  | { readonly resumed: { readonly found: number; readonly promptTokens: number | null } }
  /** The work on an item begins that no agent has done. `at`: milliseconds since 1970. */
  | { readonly began: { readonly item: string; readonly at: number } }
  | { readonly handedOff: { readonly utilization: number; readonly at: number } }
  | { readonly ended: string };

const given = JSON.parse(process.argv[2] ?? "{}") as ContinuityAgent;
const { url, task, agentId, folder, items, death, contextLimit } = given;
const random = seededRandom(1 + Number(/\d+$/.exec(task)?.[0] ?? 0));
const print = (message: ContinuityMessage): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
const titles = Array.from({ length: items }, (_, at) => `item-${at}`);

function dieAt(item: string, point: DeathPoint): void {
  if (death !== null && `item-${death.item}` === item && death.point === point)
    process.kill(process.pid, "SIGKILL");
}

async function work(run: AgentRun): Promise<void> {
  const { offer, resumedFrom } = run;
  const found = run.state.execution_state.completed_items.length;
  if (resumedFrom !== null) print({ resumed: { found, promptTokens: offer?.prompt_tokens ?? null } });
  let contextTokens = offer?.prompt_tokens ?? 0;
  for (const { title } of run.items()) {
    dieAt(title, "before the work");
    const file = join(folder, title);
    // The file of an item proves that it is done, even if no checkpoint has it.
    if (!existsSync(file)) {
      print({ began: { item: title, at: Date.now() } });
      appendFileSync(join(folder, "log"), `${title}\n`);
      writeFileSync(file, title);
    }
    dieAt(title, "before its report");
    contextTokens += 3_000 + Math.floor(random() * 6_000);
    run.usage({ contextTokens, contextLimit });
    try {
      await run.done(title, { files_created: [title] });
    } catch (error) {
      if (run.ended?.ending === "handed_off")
        print({ handedOff: { utilization: contextTokens / contextLimit, at: Date.now() } });
      throw error;
    }
    dieAt(title, "after its report");
  }
}

/** Each run is a fresh context. A task that was handed off continues with the next offer of it. */
const fleet = await connect({ url, agentId });
let outcome = "handed_off";
for (let run = 0; outcome === "handed_off"; run += 1) {
  const isFirst = run === 0;
  const result = await runAgent({
    type: "implementation",
    fleet,
    workspace: folder,
    log: () => {},
    begin: { goal: "Do every item once", pending_items: titles },
    ...(isFirst ? { task } : { onOffer: ({ task_id }) => task_id === task }),
    work,
  });
  outcome = result.outcome;
}
print({ ended: outcome });
await fleet.close();
