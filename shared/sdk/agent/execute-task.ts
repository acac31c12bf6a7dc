/** Carrying out one task: from where it stands to its end here, whichever that is. */
import { hostname } from "node:os";
import { continuationPrompt } from "../../prompts/continuation.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { EventData, FleetEvent } from "../../protocol/events.ts";
import type { WorkspaceDrift } from "../../protocol/workspace.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { Stop } from "../../runtime/process/service.ts";
import type { FleetClient } from "../client/client.ts";
import type { TaskHandle } from "../client/task.ts";
import type { HeartbeatSender } from "../heartbeat.ts";
import { compareWorkspace } from "../workspace/comparison.ts";
import { type Assignment, type Handover, RESUME_MS } from "./assignment.ts";
import { type Failure, failureOf } from "./failure.ts";
import type { AgentOptions, AgentResult } from "./options.ts";
import { AgentRun } from "./run.ts";
import { RunOver } from "./run-ended.ts";
import { newState, resumedState } from "./state.ts";

/** After a periodic checkpoint that could not be written. */
const AGAIN_MS = 5_000;

/** Says how a run failed, to whoever has to know. */
export type Tell = (failure: Failure, run: AgentRun, startedAt: string) => Promise<void>;

const superseding: ReadonlySet<string> = new Set(["TASK_TAKEN", "HANDOFF_ACKNOWLEDGED"]);

export async function carryOut(
  fleet: FleetClient,
  heart: HeartbeatSender,
  options: AgentOptions,
  assignment: Assignment,
  tell: Tell,
): Promise<AgentResult> {
  const startedAt = new Date(systemClock.now()).toISOString();
  const { task, handover } = assignment;
  // Before it looks where the work stands: who dies on the way there had the task.
  heart.set({ state: "working", taskId: task.id, fence: task.fence });
  const run = await resumed(fleet, heart, options, assignment);
  const stopped = () => run.end(new RunOver("stopped"));
  options.signal?.addEventListener("abort", stopped);
  const unwatch = await watched(fleet, run);
  const stopTicking = ticking(run);
  try {
    if (options.signal?.aborted) stopped();
    // Whoever got the task by a handoff says at once that it arrived.
    if (run.resumedFrom !== null && handover !== null) await run.begin();
    await options.work(run);
    if (run.over !== undefined) return await ended(run, run.over, task, options);
    await stopTicking();
    return await finished(run, task);
  } catch (error) {
    await stopTicking();
    if (run.over !== undefined) return await ended(run, run.over, task, options);
    const failure = failureOf(error, options.classify, run.state.metrics);
    // As far as that goes; what is thrown on is the work's own error.
    await run.last("error", failure.details, error).catch(() => {});
    await tell(failure, run, startedAt).catch(() => {});
    throw error;
  } finally {
    options.signal?.removeEventListener("abort", stopped);
    await stopTicking();
    await unwatch();
    heart.set({ state: "idle", taskId: undefined, fence: undefined, stepDeadline: undefined });
  }
}

async function resumed(
  fleet: FleetClient,
  heart: HeartbeatSender,
  options: AgentOptions,
  { task, offer, handover }: Assignment,
): Promise<AgentRun> {
  const wait = { deadlineMs: RESUME_MS };
  const found: Checkpoint | null =
    handover?.checkpointId === undefined
      ? await fleet.getLatestCheckpoint(task.id, wait)
      : await fleet.getCheckpoint(handover.checkpointId, wait);
  const drift = await driftOf(found, options.workspace);
  const nextPhase = handover?.handoff?.next_phase ?? null;
  return new AgentRun({
    task,
    agentType: options.type,
    sessionId: options.sessionId,
    workspace: options.workspace,
    found,
    drift,
    offer,
    prompt: promptOf(found, handover, drift),
    state: found === null ? newState(options.begin ?? {}) : resumedState(found, nextPhase),
    rules: options.checkpoints ?? {},
    thresholds: options.triggers,
    clock: systemClock,
    sayStepDeadline: (stepDeadline) => heart.set({ stepDeadline }),
  });
}

/** null: nothing was recorded, or nobody says where the work is done. */
async function driftOf(found: Checkpoint | null, folder: string | undefined): Promise<WorkspaceDrift | null> {
  const recorded = found?.recovery.workspace;
  return recorded === undefined || folder === undefined ? null : await compareWorkspace(recorded, folder);
}

/** The one that was given, unless this machine knows more: how the workspace stands. */
function promptOf(
  found: Checkpoint | null,
  handover: Handover | null,
  drift: WorkspaceDrift | null,
): string | null {
  const given = handover?.prompt ?? null;
  if (found === null || (given !== null && drift === null)) return given;
  const handoff = handover?.handoff ?? undefined;
  try {
    return continuationPrompt({ checkpoint: found, drift: drift ?? undefined, handoff }).text;
  } catch (error) {
    // What never leaves a prompt is more than the default budget; the given one was made with the policy's.
    if (error instanceof FleetError && error.code === "INVALID") return given;
    throw error;
  }
}

/** Events tell sooner than the next write that somebody else has the task. A hint: the fence decides in any case. */
async function watched(fleet: FleetClient, run: AgentRun): Promise<Stop> {
  const look = (event: FleetEvent): void => {
    if (!superseding.has(event.type)) return;
    const { fence } = event.data as EventData<"TASK_TAKEN">;
    if (fence > run.fence) run.end(new RunOver("fenced"));
  };
  return fleet.onEvent(look, { taskId: run.taskId }).catch(() => async () => {});
}

/** The checkpoint that is due because time went by, also while the work is busy with one thing. */
function ticking(run: AgentRun): Stop {
  const stopping = new AbortController();
  const done = (async () => {
    for (let pauseMs = await run.tick(); !stopping.signal.aborted; ) {
      // At the end of the time there may be nothing new; then the next change is looked for a little later.
      await systemClock.sleep(pauseMs === 0 ? AGAIN_MS : pauseMs, stopping.signal);
      if (stopping.signal.aborted || run.over !== undefined) return;
      pauseMs = await run.tick().catch(() => AGAIN_MS);
    }
  })();
  return async () => {
    stopping.abort();
    await done;
  };
}

function result(
  run: AgentRun,
  outcome: AgentResult["outcome"],
  handoffId: string | null = null,
): AgentResult {
  return { outcome, taskId: run.taskId, checkpointId: run.checkpointId, handoffId };
}

async function finished(run: AgentRun, task: TaskHandle): Promise<AgentResult> {
  if (run.state.execution_state.pending_items.length > 0) {
    await run.last("turn_end");
    await task.release();
    return result(run, "stopped");
  }
  run.state.execution_state.phase = "complete";
  const { checkpointId } = await run.last("task_complete");
  await task.finalize(checkpointId, "succeeded");
  return result(run, "completed");
}

async function ended(
  run: AgentRun,
  over: RunOver,
  task: TaskHandle,
  { onStop = "release" }: AgentOptions,
): Promise<AgentResult> {
  if (over.ending !== "stopped") return result(run, over.ending, over.handoffId ?? null);
  if (onStop === "hand_off") return result(run, "handed_off", await run.handOffStopped());
  await run.last("restart", "the agent was stopped");
  await task.release();
  return result(run, "stopped");
}

/** To the fleet, where nobody watches the process. */
export function reportTo(fleet: FleetClient, agentType: string): Tell {
  return ({ class: failureClass, details, resetsAt }, run, startedAt) =>
    fleet.reportExit({
      agent_id: fleet.agentId,
      agent_type: agentType,
      task_id: run.taskId,
      fence: run.fence,
      ...(run.offer !== null && { handoff_id: run.offer.handoff_id }),
      class: failureClass,
      exit_code: null,
      signal: null,
      started_at: startedAt,
      ended_at: new Date(systemClock.now()).toISOString(),
      host: hostname(),
      details,
      ...(resetsAt !== undefined && { resets_at: resetsAt }),
    });
}
