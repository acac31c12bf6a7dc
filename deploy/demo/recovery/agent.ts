/**
 * An agent of the demo's third act: the SDK's loop around real work, which comes to a standstill at one of its items.
 *
 * Usage: node deploy/demo/recovery/agent.ts <agent id> begin <task> <items> [step ms]: it starts the task, and after so many items it stands
 * still, until it is killed or a line comes on its standard input; with `step ms` it has said before how long that step may take. What it
 * does not know then is that its task has gone on without it.
 * Or: <agent id> wait <task>…: it waits for an offer of one of these tasks.
 */
import { once } from "node:events";
import { setTimeout as think } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type AgentRun, connect, FleetError, runAgent } from "../../../shared/sdk/sdk.ts";
import { teller } from "../process.ts";
import { foldersToSurvey, sentence, survey } from "../survey.ts";
import { AGENT_TYPE } from "./cast.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const [agentId = "", role, ...told] = process.argv.slice(2);
const [ownTask, stopsAfter, stepMs] = role === "begin" ? told : [];
/** What a model would need to think about an item, much shortened. */
const THINK_MS = 40;
/** Several in the time after which the demo's own fleet takes an agent for dead. */
const HEARTBEAT_MS = 400;
const LATE_WRITE_MS = 60_000;

const tell = teller(agentId);

async function work(run: AgentRun): Promise<void> {
  const task = run.taskId;
  const { metadata, execution_state } = run.resumedFrom ?? {};
  tell(metadata ? "resumed" : "began", {
    task,
    fence: run.fence,
    from: metadata?.checkpoint_id,
    by: metadata?.agent_id,
    done: execution_state?.completed_items.length ?? 0,
    next: run.state.execution_state.pending_items[0]?.title,
    pending: run.state.execution_state.pending_items.length,
  });
  let done = 0;
  for (const item of run.items()) {
    if (done === Number(stopsAfter)) await standStill(run, item.title);
    await think(THINK_MS, undefined, { signal: run.signal });
    const notes = sentence(await survey(root, item.title));
    await run.done(item, { notes });
    done += 1;
    tell("done", { task, item: item.title, notes, checkpoint: run.checkpointId });
  }
  tell("finished", { task, done });
}

async function standStill(run: AgentRun, title: string): Promise<void> {
  if (stepMs !== undefined) await run.beforeLong(`survey ${title}`, { withinMs: Number(stepMs) });
  tell("stands still", { task: run.taskId, item: title, stepMs });
  await once(process.stdin, "data");
  await writeLate(run);
}

/** The write of a process that does not know how late it is: under the fence that it had. */
async function writeLate({ taskId: task, fence }: AgentRun): Promise<void> {
  tell("writing", { task, fence });
  try {
    const { checkpointId } = await fleet.task(task, { fence }).checkpoint(
      {
        metadata: { agent_type: AGENT_TYPE, trigger: { reason: "manual" } },
        execution_state: { phase: "implementing", completed_items: ["a late thought"] },
      },
      { fallback: "none", deadlineMs: LATE_WRITE_MS },
    );
    tell("wrote", { task, id: checkpointId });
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    tell("refused", { task, code: error.code, text: error.message, details: error.details });
  }
}

const fleet = await connect({ agentId });
const { outcome, taskId } = await runAgent({
  fleet,
  type: AGENT_TYPE,
  heartbeatMs: HEARTBEAT_MS,
  checkpoints: { items: 1 },
  onOffer: ({ task_id }) => told.includes(task_id),
  ...(ownTask !== undefined && {
    task: ownTask,
    begin: {
      goal: "Survey the code of this repository, folder by folder",
      pending_items: await foldersToSurvey(root),
    },
  }),
  work,
});
tell("over", { task: taskId, outcome });
await fleet.close();
