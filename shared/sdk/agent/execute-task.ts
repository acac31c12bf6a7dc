/** Executes one task: from its current state to the end of this agent's run. */
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
import { type AgentFailure, agentFailureOf } from "./failure.ts";
import { itemsWithoutFiles, settleMissing } from "./missing-files.ts";
import type { AgentOptions, AgentResult } from "./options.ts";
import { AgentRun } from "./run.ts";
import { RunEnded } from "./run-ended.ts";
import { newState, resumedState } from "./state.ts";

/** The pause after a periodic checkpoint that could not be written. */
const RETRY_MS = 5_000;
/** The pause between two checkpoints that others ask for. */
const REQUEST_PAUSE_MS = 2_000;

/** Reports the failure of a run: to the runner or to the fleet. */
export type ReportFailure = (failure: AgentFailure, run: AgentRun, startedAt: string) => Promise<void>;

export async function executeTask(
  fleet: FleetClient,
  heartbeat: HeartbeatSender,
  options: AgentOptions,
  assignment: Assignment,
  reportFailure: ReportFailure,
): Promise<AgentResult> {
  const startedAt = new Date(systemClock.now()).toISOString();
  const { task, handover } = assignment;
  task.capture();
  // Before the state is read: an agent that dies while it reads it owns the task already.
  heartbeat.set({ state: "working", taskId: task.id, fence: task.fence });
  const run = await startRun(fleet, heartbeat, options, assignment);
  const stopped = () => run.end(new RunEnded("stopped"));
  options.signal?.addEventListener("abort", stopped);
  const stopWatching = await endWhenSuperseded(fleet, run);
  const stopTicking = writePeriodically(run);
  const stopRequests = await writeOnRequest(fleet, run);
  try {
    if (options.signal?.aborted) stopped();
    settleMissing(run.state, run.missing, options.onMissingFiles ?? "report");
    if (run.resumedFrom === null) await run.writeInitial();
    else if (handover !== null) await run.confirmHandoff();
    await options.work(run);
    if (run.ended !== undefined) return await resultOfEnded(run, run.ended, task, options);
    await stopTicking();
    return await resultOfReturned(run, task);
  } catch (error) {
    await stopTicking();
    if (run.ended !== undefined) return await resultOfEnded(run, run.ended, task, options);
    const failure = agentFailureOf(error, options.classify, run.state.metrics);
    // Best effort: the error of the work itself is rethrown.
    await run.writeLast("error", failure.details, error).catch(() => {});
    await reportFailure(failure, run, startedAt).catch(() => {});
    throw error;
  } finally {
    options.signal?.removeEventListener("abort", stopped);
    await stopTicking();
    await stopRequests();
    await stopWatching();
    heartbeat.set({ state: "idle", taskId: undefined, fence: undefined, stepDeadline: undefined });
  }
}

async function startRun(
  fleet: FleetClient,
  heartbeat: HeartbeatSender,
  options: AgentOptions,
  { task, offer, handover }: Assignment,
): Promise<AgentRun> {
  const deadline = { deadlineMs: RESUME_MS };
  const found: Checkpoint | null =
    handover?.checkpointId === undefined
      ? await fleet.getLatestCheckpoint(task.id, deadline)
      : await fleet.getCheckpoint(handover.checkpointId, deadline);
  const drift = await driftOf(found, options.workspace);
  const nextPhase = handover?.handoff?.next_phase ?? null;
  const state = found === null ? newState(options.begin ?? {}) : resumedState(found, nextPhase);
  const { completed_items: completed, phase } = state.execution_state;
  const missing =
    options.workspace === undefined ? [] : await itemsWithoutFiles(completed, options.workspace);
  const log = options.log ?? ((line: string) => process.stderr.write(`${line}\n`));
  if (found !== null) log(`[Agent] Resuming from phase: ${phase}`);
  return new AgentRun({
    task,
    agentId: fleet.agentId,
    agentType: options.type,
    sessionId: options.sessionId,
    workspace: options.workspace,
    found,
    drift,
    missing,
    offer,
    prompt: promptOf(found, handover, drift),
    state,
    rules: options.checkpoints ?? {},
    thresholds: options.triggers,
    clock: systemClock,
    setStepDeadline: (stepDeadline) => heartbeat.set({ stepDeadline }),
  });
}

/** null: the checkpoint has no record of a workspace, or the agent has no folder. */
async function driftOf(found: Checkpoint | null, folder: string | undefined): Promise<WorkspaceDrift | null> {
  const recorded = found?.recovery.workspace;
  return recorded === undefined || folder === undefined ? null : await compareWorkspace(recorded, folder);
}

/** The given prompt, unless this machine knows more: the drift of the workspace. */
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
    // The required parts exceed the default budget; the given prompt was made with the policy's budget.
    if (error instanceof FleetError && error.code === "INVALID") return given;
    throw error;
  }
}

/**
 * Writes a checkpoint when another principal is about to reassign the task (seed 003), at most one in a while. Without the right to
 * receive requests, a reassignment continues from the last checkpoint.
 */
async function writeOnRequest(fleet: FleetClient, run: AgentRun): Promise<Stop> {
  let nextAt = Number.NEGATIVE_INFINITY;
  const write = (): void => {
    const now = systemClock.monotonic();
    if (run.ended !== undefined || now < nextAt) return;
    nextAt = now + REQUEST_PAUSE_MS;
    void run.writeLast("reassignment", "asked for before a reassignment").catch(() => {});
  };
  return fleet.onCheckpointRequest(write).catch(() => async () => {});
}

/** Ends the run sooner than its next write would. Only a hint: the fence decides in any case. */
async function endWhenSuperseded(fleet: FleetClient, run: AgentRun): Promise<Stop> {
  const onEvent = (event: FleetEvent): void => {
    const after = ownershipAfter(event);
    if (after !== null && after.fence > run.fence) run.end(new RunEnded("fenced", { owner: after.owner }));
  };
  return fleet.onEvent(onEvent, { taskId: run.taskId }).catch(() => async () => {});
}

/** The owner and the fence after an event that raises the fence; null: any other event. */
function ownershipAfter({ type, data }: FleetEvent): { owner: string | null; fence: number } | null {
  switch (type) {
    case "TASK_TAKEN":
    case "HANDOFF_ACKNOWLEDGED": {
      const { agentId, fence } = data as EventData<"TASK_TAKEN" | "HANDOFF_ACKNOWLEDGED">;
      return { owner: agentId, fence };
    }
    case "AGENT_FAILED":
      // This event has the fence that was revoked.
      return { owner: null, fence: (data as EventData<"AGENT_FAILED">).fence + 1 };
    case "RECOVERY_REQUESTED":
      return { owner: null, fence: (data as EventData<"RECOVERY_REQUESTED">).fence };
    default:
      return null;
  }
}

/** Writes the periodic checkpoints, also during a long step of the work. */
function writePeriodically(run: AgentRun): Stop {
  const stopping = new AbortController();
  const done = (async () => {
    for (let pauseMs = await run.tick(); !stopping.signal.aborted; ) {
      // 0: the time has passed without a change. Look for the next change a little later.
      await systemClock.sleep(pauseMs === 0 ? RETRY_MS : pauseMs, stopping.signal);
      if (stopping.signal.aborted || run.ended !== undefined) return;
      pauseMs = await run.tick().catch(() => RETRY_MS);
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
  const from = run.resumedFrom?.metadata;
  const resumedFrom =
    from === undefined ? null : { checkpointId: from.checkpoint_id, agentId: from.agent_id };
  return { outcome, taskId: run.taskId, checkpointId: run.checkpointId, handoffId, resumedFrom };
}

async function resultOfReturned(run: AgentRun, task: TaskHandle): Promise<AgentResult> {
  if (run.state.execution_state.pending_items.length > 0) {
    await run.writeLast("turn_end");
    await task.release();
    return result(run, "stopped");
  }
  run.state.execution_state.phase = "complete";
  const before = run.resumedFrom?.metadata.agent_id;
  const details =
    before === undefined ? undefined : `the resumed task is complete; ${before} worked on it before`;
  const { checkpointId } = await run.writeLast("task_complete", details);
  const finalized = await task.finalize(checkpointId, "succeeded");
  // The policy may hand a completed task to another agent type. The result of a queued command is not known yet.
  const handoffId = finalized.outcome === "committed" ? finalized.handoffId : undefined;
  return handoffId === undefined ? result(run, "completed") : result(run, "handed_off", handoffId);
}

async function resultOfEnded(
  run: AgentRun,
  ended: RunEnded,
  task: TaskHandle,
  { onStop = "release" }: AgentOptions,
): Promise<AgentResult> {
  if (ended.ending !== "stopped") return result(run, ended.ending, ended.handoffId ?? null);
  if (onStop === "hand_off") return result(run, "handed_off", await run.handOffStopped());
  await run.writeLast("restart", "the agent was stopped");
  await task.release();
  return result(run, "stopped");
}

/** Reports failures to the fleet, for an agent without a runner that watches its process. */
export function reportTo(fleet: FleetClient, agentType: string): ReportFailure {
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
