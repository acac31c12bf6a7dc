/**
 * An agent of the second part: the SDK's `runAgent` with real work. Agents of type `documentation` survey the folders; agents of type `qa`
 * recount the results. The text that an agent has read fills its context; before one more step would fill it above 70 % of the limit, it hands the task over.
 *
 * Usage: node deploy/demo/handoff/agent.ts <task> <agent id> <type> <context limit> [begin]. With `begin` the agent starts the task, and
 * after its handoff it attempts one more write when a line arrives on its standard input. Without, it waits for an offer.
 */
import { once } from "node:events";
import { setTimeout as think } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type AgentRun, connect, FleetError, runAgent } from "../../../shared/sdk/sdk.ts";
import { notesOf, recount, summaryOf, surveyFolder, surveysBySize, tokensOf } from "../folder-survey.ts";
import { reporter } from "../process.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const [taskId = "", agentId = "", type = "", limit = "", begin] = process.argv.slice(2);
const contextLimit = Number(limit);
/** Stands in for the time that a model thinks about an item. */
const THINK_MS = 80;
const LATE_WRITE_MS = 60_000;
const REVIEW = "Recount the longest file of each folder";

const report = reporter(agentId);

async function surveyFolders(run: AgentRun): Promise<void> {
  // The prompt counts as well.
  let tokens = run.offer?.prompt_tokens ?? 0;
  const work = run.state.execution_state;
  for (const item of run.items()) {
    report("working", { item: item.title });
    await think(THINK_MS, undefined, { signal: run.signal });
    const survey = await surveyFolder(root, item.title);
    tokens += tokensOf(survey.characters);
    report("surveyed", { item: item.title, tokens, contextLimit });
    run.usage({ tokensConsumed: tokens, contextTokens: tokens, contextLimit });
    const next = work.pending_items.find((one) => one !== item)?.title;
    work.resume_pointer = { next_action: next === undefined ? "Let a reviewer recount" : `Survey ${next}` };
    await run.done(item, { notes: summaryOf(survey) });
  }
  work.pending_items.push({ title: REVIEW });
  work.resume_pointer = { next_action: REVIEW };
  report("phase", { next: "reviewing" });
  await run.phase("reviewing");
}

async function recountAll(run: AgentRun): Promise<void> {
  for (const item of run.items()) {
    report("recounting", { item: item.title });
    const found = run.state.execution_state.completed_items;
    let [tokens, right] = [run.offer?.prompt_tokens ?? 0, 0];
    for (const one of found) {
      const { isRight, characters } = await recount(root, notesOf(one));
      tokens += tokensOf(characters);
      if (isRight) right += 1;
    }
    report("recounted", { right, of: found.length, tokens, contextLimit });
    run.usage({ tokensConsumed: tokens, contextTokens: tokens, contextLimit });
    await run.done(item, { notes: `${right} of ${found.length} results confirmed` });
  }
}

async function work(run: AgentRun): Promise<void> {
  const { metadata, execution_state } = run.resumedFrom ?? {};
  const next = run.state.execution_state.pending_items[0]?.title;
  report(metadata ? "resumed" : "began", {
    fence: run.fence,
    next,
    from: metadata?.checkpoint_id,
    by: metadata?.agent_id,
    done: execution_state?.completed_items.length,
    pending: run.state.execution_state.pending_items.length,
    prompt: run.prompt,
    promptTokens: run.offer?.prompt_tokens,
  });
  await (type === "qa" ? recountAll(run) : surveyFolders(run));
}

/** A late write, under the fence that the agent had: the process does not know that it was frozen. */
async function writeLate(fence: number): Promise<void> {
  report("about to write", { fence });
  await once(process.stdin, "data");
  report("writing", { fence });
  try {
    const { checkpointId } = await fleet.task(taskId, { fence }).checkpoint(
      {
        metadata: { agent_type: type, trigger: { reason: "manual" } },
        execution_state: { phase: "implementing", completed_items: ["a late thought"] },
      },
      { fallback: "none", deadlineMs: LATE_WRITE_MS },
    );
    report("wrote", { id: checkpointId });
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    report("refused", { code: error.code, text: error.message, details: error.details });
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
      pending_items: (await surveysBySize(root)).map(({ folder }) => folder),
    },
  }),
  work: (run) => {
    fence = run.fence;
    return work(run);
  },
});
report("over", { outcome: ended.outcome, handoff: ended.handoffId });
if (begin) await writeLate(fence);
await fleet.close();
