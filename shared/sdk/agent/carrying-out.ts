/** Carrying out one task: from where it stands to its end here, whichever that is. */
import { hostname } from "node:os";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { EventData, FleetEvent } from "../../protocol/events.ts";
import type { OfferData } from "../../protocol/offer.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { Stop } from "../../runtime/service.ts";
import type { FleetClient } from "../client.ts";
import type { Heart } from "../heartbeat.ts";
import type { TaskHandle } from "../task.ts";
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
    if (offer !== null) await run.begin();
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
  return new AgentRun({
    task,
    agentType: options.type,
    sessionId: options.sessionId,
    found,
    offer,
    prompt: offer?.prompt ?? null,
    state: found === null ? newState(options.begin ?? {}) : resumedState(found, offer?.next_phase ?? null),
    rules: options.checkpoints ?? {},
    thresholds: options.triggers,
    clock: systemClock,
  });
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
