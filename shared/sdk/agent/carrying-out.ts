/** Carrying out one task: from where it stands to its end here, whichever that is. */
import { hostname } from "node:os";
import { continuationPrompt } from "../../prompts/continuation.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { EventData, FleetEvent } from "../../protocol/events.ts";
import type { OfferData } from "../../protocol/offer.ts";
import type { WorkspaceDrift } from "../../protocol/workspace.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { Stop } from "../../runtime/service.ts";
import type { FleetClient } from "../client.ts";
import type { Heart } from "../heartbeat.ts";
import type { TaskHandle } from "../task.ts";
import { compareWorkspace } from "../workspace/comparison.ts";
import type { AgentOptions, AgentResult } from "./options.ts";
import { RunOver } from "./over.ts";
import { AgentRun } from "./run.ts";
import { newState, resumedState } from "./state.ts";
import { reasonText } from "./wording.ts";

export interface Assignment {
  /** Under the fence that this agent got. */
  readonly task: TaskHandle;
  /** null: it began by name. */
  readonly offer: OfferData | null;
}

/** Having a task and not knowing where it stands would be worse than a long wait. */
const RESUME_MS = 60_000;
/** After a periodic checkpoint that could not be written. */
const AGAIN_MS = 5_000;

const superseding: ReadonlySet<string> = new Set(["TASK_TAKEN", "HANDOFF_ACKNOWLEDGED"]);

export async function carryOut(
  fleet: FleetClient,
  heart: Heart,
  options: AgentOptions,
  assignment: Assignment,
): Promise<AgentResult> {
  const startedAt = new Date(systemClock.now()).toISOString();
  const { task, offer } = assignment;
  const run = await resumed(fleet, options, assignment);
  heart.set({ state: "working", taskId: task.id, fence: run.fence });
  const stopped = () => run.end(new RunOver("stopped"));
  options.signal?.addEventListener("abort", stopped);
  const unwatch = await watched(fleet, run);
  const stopTicking = ticking(run);
  try {
    if (options.signal?.aborted) stopped();
    // Whoever got the task by a handoff says at once that it arrived.
    if (run.resumedFrom !== null && (offer !== null || options.fence !== undefined)) await run.begin();
    await options.work(run);
    if (run.over !== undefined) return await ended(run, run.over, task, options);
    await stopTicking();
    return await finished(run, task);
  } catch (error) {
    await stopTicking();
    if (run.over !== undefined) return await ended(run, run.over, task, options);
    await failed(fleet, run, options, { error, startedAt, offer });
    throw error;
  } finally {
    options.signal?.removeEventListener("abort", stopped);
    await stopTicking();
    await unwatch();
    heart.set({ state: "idle", taskId: undefined, fence: undefined });
  }
}

async function resumed(
  fleet: FleetClient,
  options: AgentOptions,
  { task, offer }: Assignment,
): Promise<AgentRun> {
  const wait = { deadlineMs: RESUME_MS };
  const found: Checkpoint | null =
    offer === null
      ? await fleet.getLatestCheckpoint(task.id, wait)
      : await fleet.getCheckpoint(offer.checkpoint.id, wait);
  const drift = await driftOf(found, options.workspace);
  return new AgentRun({
    task,
    agentType: options.type,
    sessionId: options.sessionId,
    workspace: options.workspace,
    found,
    drift,
    offer,
    prompt: promptOf(found, offer, drift),
    state: found === null ? newState(options.begin ?? {}) : resumedState(found, offer?.next_phase ?? null),
    rules: options.checkpoints ?? {},
    thresholds: options.triggers,
    clock: systemClock,
  });
}

/** null: nothing was recorded, or nobody says where the work is done. */
async function driftOf(found: Checkpoint | null, folder: string | undefined): Promise<WorkspaceDrift | null> {
  const recorded = found?.recovery.workspace;
  return recorded === undefined || folder === undefined ? null : await compareWorkspace(recorded, folder);
}

/** The offer's, unless this machine knows more: how the workspace stands. */
function promptOf(
  found: Checkpoint | null,
  offer: OfferData | null,
  drift: WorkspaceDrift | null,
): string | null {
  if (found === null) return null;
  if (offer !== null && drift === null) return offer.prompt;
  const handoff = offer === null ? undefined : { ...offer, to_agent_type: offer.agent_type };
  try {
    return continuationPrompt({ checkpoint: found, drift: drift ?? undefined, handoff }).text;
  } catch (error) {
    // What never leaves a prompt is more than the default budget; the offer's was made with the policy's.
    if (error instanceof FleetError && error.code === "INVALID") return offer?.prompt ?? null;
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

/** Written down and reported as far as that goes; what is thrown on is the work's own error. */
async function failed(
  fleet: FleetClient,
  run: AgentRun,
  { type, classify = () => "crash" as const }: AgentOptions,
  { error, startedAt, offer }: { error: unknown; startedAt: string; offer: OfferData | null },
): Promise<void> {
  const details = reasonText(error);
  await run.last("error", details, error).catch(() => {});
  const report = {
    agent_id: fleet.agentId,
    agent_type: type,
    task_id: run.taskId,
    fence: run.fence,
    ...(offer !== null && { handoff_id: offer.handoff_id }),
    class: classify(error),
    exit_code: null,
    signal: null,
    started_at: startedAt,
    ended_at: new Date(systemClock.now()).toISOString(),
    host: hostname(),
    details,
  };
  await fleet.reportExit(report).catch(() => {});
}
