/**
 * The loop around an agent. It gets a task, from the runner that started the agent, by an offer or by name, and reads its state. It
 * sends heartbeats, writes checkpoints by the policy, and hands the task off when a trigger fires. The agent itself does only the work.
 */

import { ERROR_TABLE, invalid } from "../../protocol/errors.ts";
import { isEnded } from "../../protocol/task.ts";
import { whenAborted } from "../../runtime/clock.ts";
import { createDeferred } from "../../runtime/deferred.ts";
import { withSpan } from "../../runtime/observability/tracing.ts";
import type { FleetClient } from "../client/client.ts";
import { connect } from "../client/connect.ts";
import type { HeartbeatSender } from "../heartbeat.ts";
import { type Assignment, assignmentByName, assignmentByOffer, RESUME_MS } from "./assignment.ts";
import { executeTask, type ReportFailure, reportTo } from "./execute-task.ts";
import { agentFailureOf, ExitNote, setExitCode } from "./failure.ts";
import type { AgentOptions, AgentResult } from "./options.ts";
import { assignmentOf, type RunnerStart, readRunnerStart } from "./runner-environment.ts";

const NO_TASK: AgentResult = {
  outcome: "stopped",
  taskId: null,
  checkpointId: null,
  handoffId: null,
  resumedFrom: null,
};

/** Runs one task, from its assignment or an offer to the end of this agent's run. Throws the error of the work. */
export async function runAgent(options: AgentOptions): Promise<AgentResult> {
  if (options.fence !== undefined && options.task === undefined) {
    throw invalid("task", "the task of the fence");
  }
  // A task that the program names comes before that of a runner.
  const start = options.task === undefined ? readRunnerStart(options.connect?.env ?? process.env) : null;
  return start === null ? run(options, executeByOptions) : runStarted(options, start);
}

/** Runs the task of a runner. The process leaves its failure to the runner, which reports it. */
async function runStarted(options: AgentOptions, start: RunnerStart): Promise<AgentResult> {
  const note = new ExitNote(start.exitFile);
  const { agentId } = start;
  const own = {
    ...options,
    type: start.agentType ?? options.type,
    connect: { ...options.connect, ...(agentId !== undefined && { agentId }) },
  };
  const execute: Execute = async (fleet, heartbeat) => {
    const assignment = await assignmentOf(fleet, start);
    return executeTask(fleet, heartbeat, own, assignment, async (failure) => note.write(failure));
  };
  try {
    const result = await withSpan("agent", { "fleet.task": start.task }, () => run(own, execute), {
      parent: start.trace,
    });
    if (result.outcome === "fenced") setExitCode(ERROR_TABLE.FENCED.exit);
    return result;
  } catch (error) {
    note.write(agentFailureOf(error, options.classify));
    throw error;
  }
}

type Execute = (
  fleet: FleetClient,
  heartbeat: HeartbeatSender,
  options: AgentOptions,
) => Promise<AgentResult>;

async function run(options: AgentOptions, execute: Execute): Promise<AgentResult> {
  const fleet = options.fleet ?? (await connect(options.connect));
  const { type: agentType, sessionId, heartbeatMs: everyMs } = options;
  const heartbeat = fleet.startHeartbeat({ agentType, state: "starting", sessionId }, { everyMs });
  try {
    return options.signal?.aborted ? NO_TASK : await execute(fleet, heartbeat, options);
  } finally {
    await heartbeat.stop();
    if (options.fleet === undefined) await fleet.close();
  }
}

async function executeByOptions(
  fleet: FleetClient,
  heartbeat: HeartbeatSender,
  options: AgentOptions,
): Promise<AgentResult> {
  const { task, fence } = options;
  const reportFailure = reportTo(fleet, options.type);
  if (task === undefined) return executeOffered(fleet, heartbeat, options, reportFailure);
  // Before the task is taken: a program that a supervisor starts again and again must not reopen its completed task each time.
  if (fence === undefined && options.reopen !== true) {
    const ended = await endedTask(fleet, task);
    if (ended !== null) return ended;
  }
  const handle =
    fence === undefined ? await fleet.takeTask(task, { heartbeats: true }) : fleet.task(task, { fence });
  const assignment = assignmentByName(handle, fence !== undefined);
  return executeTask(fleet, heartbeat, options, assignment, reportFailure);
}

/** null: the task is new or still open. */
async function endedTask(fleet: FleetClient, taskId: string): Promise<AgentResult | null> {
  const state = await fleet.task(taskId).state({ deadlineMs: RESUME_MS });
  if (state === null || !isEnded(state.state)) return null;
  return {
    outcome: "already_ended",
    taskId,
    checkpointId: state.latest_id,
    handoffId: null,
    resumedFrom: null,
  };
}

/** Waits for an offer, accepts it and executes its task. */
async function executeOffered(
  fleet: FleetClient,
  heartbeat: HeartbeatSender,
  options: AgentOptions,
  reportFailure: ReportFailure,
): Promise<AgentResult> {
  const { type, signal, onOffer } = options;
  const ended = createDeferred<AgentResult>();
  let isAccepted = false;
  const stopWaiting = () => {
    if (!isAccepted) ended.resolve(NO_TASK);
  };
  signal?.addEventListener("abort", stopWaiting);
  heartbeat.set({ state: "idle" });
  const stop = await fleet.onOffer(type, async (offer) => {
    if (signal?.aborted) return;
    if (onOffer !== undefined && !(await onOffer(offer.data))) return;
    const { task } = await offer.acknowledge({ heartbeats: true });
    isAccepted = true;
    const assignment: Assignment = assignmentByOffer(task, offer.data);
    executeTask(fleet, heartbeat, options, assignment, reportFailure).then(ended.resolve, ended.reject);
    // The handler stays busy until no offers are taken, so that no other offer comes to an agent that is about to end.
    await whenAborted(offer.signal);
  });
  try {
    return await ended.promise;
  } finally {
    signal?.removeEventListener("abort", stopWaiting);
    await stop();
  }
}
