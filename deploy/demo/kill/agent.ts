/**
 * The agent of the first part: an ordinary process that works through a task and keeps its state only in Fleet. A second process
 * continues where the first one stopped, no matter how the first one ended.
 *
 * Usage: node deploy/demo/kill/agent.ts <task> <agent id>.
 */
import { setTimeout as think } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Checkpoint, type CheckpointInput, connect } from "../../../shared/sdk/sdk.ts";
import { foldersToSurvey, summaryOf, surveyFolder } from "../folder-survey.ts";
import { reporter } from "../process.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const [taskId = "", agentId = ""] = process.argv.slice(2);
/** Stands in for the time that a model thinks between two steps. */
const THINK_MS = 80;

type Item = {
  readonly title: string;
  notes?: string | undefined;
};

const report = reporter(agentId);

function state(completed: Item[], pending: Item[], iteration: number): CheckpointInput {
  const next = pending[0];
  return {
    metadata: {
      agent_type: "documentation",
      iteration,
      trigger: { reason: next ? "progress" : "task_complete" },
      labels: { demo: "survey" },
    },
    execution_state: {
      phase: next ? "implementing" : "complete",
      goal: "Survey the code of this repository, folder by folder",
      completed_items: completed,
      pending_items: pending,
      progress_percent: Math.round((100 * completed.length) / (completed.length + pending.length)),
      ...(next && { current_focus: next.title, resume_pointer: { next_action: `Survey ${next.title}` } }),
    },
    context_summary: {
      key_decisions: [{ decision: "Count lines and exports only", rationale: "Enough to compare folders" }],
    },
    metrics: { tokens_consumed: 1_200 * completed.length, tools_invoked: completed.length },
  };
}

async function initialWork(
  found: Checkpoint | null,
): Promise<{ completed: Item[]; pending: Item[]; iteration: number }> {
  if (found === null) {
    const folders = await foldersToSurvey(root);
    report("began", { folders: folders.length });
    return { completed: [], pending: folders.map((title) => ({ title })), iteration: 1 };
  }
  const { metadata, execution_state } = found;
  const completed = execution_state.completed_items as Item[];
  const pending = execution_state.pending_items as Item[];
  report("resumed", {
    from: metadata.checkpoint_id,
    by: metadata.agent_id,
    done: completed.length,
    next: pending[0]?.title ?? null,
  });
  return { completed, pending, iteration: metadata.iteration + 1 };
}

const fleet = await connect({ agentId });
const task = fleet.task(taskId);
const { completed, pending, iteration } = await initialWork(await task.resume());

for (let item = pending[0]; item; item = pending[0]) {
  report("working", { item: item.title });
  await think(THINK_MS);
  const found = await surveyFolder(root, item.title);
  pending.shift();
  completed.push({ title: item.title, notes: summaryOf(found) });
  const begun = performance.now();
  const outcome = await task.checkpoint(state(completed, pending, iteration));
  report("checkpoint", {
    id: outcome.checkpointId,
    done: completed.length,
    ms: performance.now() - begun,
  });
  if (pending.length === 0) {
    await task.finalize(outcome.checkpointId, "succeeded", { retentionPolicy: "short" });
    report("finished", { id: outcome.checkpointId, done: completed.length });
  }
}
await fleet.close();
