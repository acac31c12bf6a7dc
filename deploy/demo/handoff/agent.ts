/**
 * An agent of the demo's second act: the SDK's loop around real work. Two types do it: `documentation` surveys the folders, `qa` counts
 * again what was found. Its context is what it has read; when that is over 70 % of its limit, another agent has to go on.
 *
 * Usage: node deploy/demo/handoff/agent.ts <task> <agent id> <type> <context limit> [begin]. With `begin` it starts the task, and after
 * its handoff it still has something to write, for which it waits for a line on its standard input; else it waits for an offer.
 */
import { once } from "node:events";
import { setTimeout as think } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type AgentRun, connect, FleetError, runAgent } from "../../../shared/sdk/sdk.ts";
import { teller } from "../process.ts";
import { bySize, notesOf, review, sentence, survey, tokensOf } from "../survey.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const [taskId = "", agentId = "", type = "", limit = "", begin] = process.argv.slice(2);
const contextLimit = Number(limit);
/** What a model would need to think about an item, much shortened. */
const THINK_MS = 80;
const LAST_WRITE_MS = 60_000;
const REVIEW = "Count the longest file of each folder again";

const tell = teller(agentId);

async function surveying(run: AgentRun): Promise<void> {
  // The prompt fills the context as well.
  let tokens = run.offer?.prompt_tokens ?? 0;
  const work = run.state.execution_state;
  for (const item of run.items()) {
    tell("working", { item: item.title });
    await think(THINK_MS, undefined, { signal: run.signal });
    const finding = await survey(root, item.title);
    tokens += tokensOf(finding.characters);
    tell("surveyed", { item: item.title, tokens, contextLimit });
    run.usage({ tokensConsumed: tokens, contextLimit });
    const next = work.pending_items.find((one) => one !== item)?.title;
    work.resume_pointer = { next_action: next === undefined ? "Have it reviewed" : `Survey ${next}` };
    await run.done(item, { notes: sentence(finding) });
  }
  work.pending_items.push({ title: REVIEW });
  work.resume_pointer = { next_action: REVIEW };
  tell("phase", { next: "reviewing" });
  await run.phase("reviewing");
}

async function reviewing(run: AgentRun): Promise<void> {
  for (const item of run.items()) {
    tell("working", { item: item.title });
    const found = run.state.execution_state.completed_items;
    let [tokens, agreeing] = [run.offer?.prompt_tokens ?? 0, 0];
    for (const one of found) {
      const { agrees, characters } = await review(root, notesOf(one));
      tokens += tokensOf(characters);
      if (agrees) agreeing += 1;
    }
    tell("reviewed", { agreeing, of: found.length, tokens, contextLimit });
    run.usage({ tokensConsumed: tokens, contextLimit });
    await run.done(item, { notes: `${agreeing} of ${found.length} agree` });
  }
}

async function work(run: AgentRun): Promise<void> {
  const { metadata, execution_state } = run.resumedFrom ?? {};
  const next = run.state.execution_state.pending_items[0]?.title;
  tell(metadata ? "resumed" : "began", {
    fence: run.fence,
    next,
    from: metadata?.checkpoint_id,
    by: metadata?.agent_id,
    done: execution_state?.completed_items.length,
    pending: run.state.execution_state.pending_items.length,
    prompt: run.prompt,
    promptTokens: run.offer?.prompt_tokens,
  });
  await (type === "qa" ? reviewing(run) : surveying(run));
}

/** The write of a process that does not know how late it is: under the fence that it had. */
async function writeOnceMore(fence: number): Promise<void> {
  tell("about to write", { fence });
  await once(process.stdin, "data");
  tell("writing", { fence });
  try {
    const { checkpointId } = await fleet.task(taskId, { fence }).checkpoint(
      {
        metadata: { agent_type: type, trigger: { reason: "manual" } },
        execution_state: { phase: "implementing", completed_items: ["a late thought"] },
      },
      { fallback: "none", deadlineMs: LAST_WRITE_MS },
    );
    tell("wrote", { id: checkpointId });
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    tell("refused", { code: error.code, text: error.message, details: error.details });
  }
}

const fleet = await connect({ agentId });
let fence = 0;
const ended = await runAgent({
  fleet,
  type,
  checkpoints: { items: 3 },
  onOffer: ({ task_id }) => task_id === taskId,
  ...(begin && {
    task: taskId,
    begin: {
      goal: "Survey the code of this repository, folder by folder",
      pending_items: (await bySize(root)).map(({ folder }) => folder),
    },
  }),
  work: (run) => {
    fence = run.fence;
    return work(run);
  },
});
tell("over", { outcome: ended.outcome, handoff: ended.handoffId });
if (begin) await writeOnceMore(fence);
await fleet.close();
