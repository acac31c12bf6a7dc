/**
 * An agent of the third part: the SDK's `runAgent` with real work, which hangs at one of its items.
 *
 * Usage: node deploy/demo/recovery/agent.ts <agent id> begin <task> <items> [step ms]. The agent starts the task, and hangs after that many
 * items until it is killed or a line arrives on its standard input. With `step ms` it announces the duration of that step first. When it
 * returns, it does not know that another agent has its task.
 * Or: <agent id> wait <task>…. The agent waits for an offer of one of these tasks.
 */
import { once } from "node:events";
import { setTimeout as think } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type AgentRun, connect, FleetError, runAgent } from "../../../shared/sdk/sdk.ts";
import { foldersToSurvey, summaryOf, surveyFolder } from "../folder-survey.ts";
import { reporter } from "../process.ts";
import { AGENT_TYPE } from "./failed-task.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const [agentId = "", role, ...args] = process.argv.slice(2);
const [ownTask, stopsAfter, stepMs] = role === "begin" ? args : [];
/** Stands in for the time that a model thinks about an item. */
const THINK_MS = 40;
/** Several heartbeats within the silence after which the demo's own fleet counts an agent as failed. */
const HEARTBEAT_MS = 400;
const LATE_WRITE_MS = 60_000;

const report = reporter(agentId);

async function work(run: AgentRun): Promise<void> {
  const task = run.taskId;
  const { metadata, execution_state } = run.resumedFrom ?? {};
  report(metadata ? "resumed" : "began", {
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
    if (done === Number(stopsAfter)) await hang(run, item.title);
    await think(THINK_MS, undefined, { signal: run.signal });
    const notes = summaryOf(await surveyFolder(root, item.title));
    await run.done(item, { notes });
    done += 1;
    report("done", { task, item: item.title, notes, checkpoint: run.checkpointId });
  }
  report("finished", { task, done });
}

async function hang(run: AgentRun, title: string): Promise<void> {
  if (stepMs !== undefined) await run.beforeLong(`survey ${title}`, { withinMs: Number(stepMs) });
  report("hanging", { task: run.taskId, item: title, stepMs });
  await once(process.stdin, "data");
  await writeLate(run);
}

/** A late write, under the fence that the agent had: the process does not know that another agent owns its task. */
async function writeLate({ taskId: task, fence }: AgentRun): Promise<void> {
  report("writing", { task, fence });
  try {
    const { checkpointId } = await fleet.task(task, { fence }).checkpoint(
      {
        metadata: { agent_type: AGENT_TYPE, trigger: { reason: "manual" } },
        execution_state: { phase: "implementing", completed_items: ["a late thought"] },
      },
      { fallback: "none", deadlineMs: LATE_WRITE_MS },
    );
    report("wrote", { task, id: checkpointId });
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    report("refused", { task, code: error.code, text: error.message, details: error.details });
  }
}

const fleet = await connect({ agentId });
const { outcome, taskId } = await runAgent({
  fleet,
  type: AGENT_TYPE,
  heartbeatMs: HEARTBEAT_MS,
  checkpoints: { items: 1 },
  onOffer: ({ task_id }) => args.includes(task_id),
  ...(ownTask !== undefined && {
    task: ownTask,
    begin: {
      goal: "Survey the code of this repository, folder by folder",
      pending_items: await foldersToSurvey(root),
    },
  }),
  work,
});
report("over", { task: taskId, outcome });
await fleet.close();
