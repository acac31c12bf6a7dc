/**
 * The loop around an agent: it gets a task, from the runner that started it, by an offer or by name, brings back where the work stands,
 * keeps saying that it lives, writes checkpoints by the policy, and hands the task off when a trigger fires. What is left to the agent
 * is the work.
 */

import { ERROR_TABLE, invalid } from "../../protocol/errors.ts";
import { whenAborted } from "../../runtime/clock.ts";
import { withSpan } from "../../runtime/observability/tracing.ts";
import type { FleetClient } from "../client/client.ts";
import { connect } from "../client/connect.ts";
import type { HeartbeatSender } from "../heartbeat.ts";
import { type Assignment, assignmentByName, assignmentByOffer } from "./assignment.ts";
import { carryOut, reportTo, type Tell } from "./execute-task.ts";
import { endWith, failureOf, LastWord } from "./failure.ts";
import type { AgentOptions, AgentResult } from "./options.ts";
import { assignmentOf, type Start, startFrom } from "./runner-environment.ts";

const NOTHING: AgentResult = { outcome: "stopped", taskId: null, checkpointId: null, handoffId: null };

/** One task, from the start or an offer to the agent's end of it. Throws what the work threw. */
export async function runAgent(options: AgentOptions): Promise<AgentResult> {
  if (options.fence !== undefined && options.task === undefined) {
    throw invalid("task", "the task of the fence");
  }
  // What the program says itself comes first.
  const start = options.task === undefined ? startFrom(options.connect?.env ?? process.env) : null;
  return start === null ? run(options, byOptions) : started(options, start);
}

/** As a runner's child: it says by its exit how it went, and the runner reports that. */
async function started(options: AgentOptions, start: Start): Promise<AgentResult> {
  const word = new LastWord(start.exitFile);
  const { agentId } = start;
  const own = {
    ...options,
    type: start.agentType ?? options.type,
    connect: { ...options.connect, ...(agentId !== undefined && { agentId }) },
  };
  const begin: Begin = async (fleet, heart) => {
    const assignment = await assignmentOf(fleet, start);
    return carryOut(fleet, heart, own, assignment, async (failure) => word.say(failure));
  };
  try {
    const result = await withSpan("agent", { "fleet.task": start.task }, () => run(own, begin), {
      parent: start.trace,
    });
    if (result.outcome === "fenced") endWith(ERROR_TABLE.FENCED.exit);
    return result;
  } catch (error) {
    word.say(failureOf(error, options.classify));
    throw error;
  }
}

type Begin = (fleet: FleetClient, heart: HeartbeatSender, options: AgentOptions) => Promise<AgentResult>;

async function run(options: AgentOptions, begin: Begin): Promise<AgentResult> {
  const fleet = options.fleet ?? (await connect(options.connect));
  const { type: agentType, sessionId, heartbeatMs: everyMs } = options;
  const heart = fleet.startHeartbeat({ agentType, state: "starting", sessionId }, { everyMs });
  try {
    return options.signal?.aborted ? NOTHING : await begin(fleet, heart, options);
  } finally {
    await heart.stop();
    if (options.fleet === undefined) await fleet.close();
  }
}

async function byOptions(
  fleet: FleetClient,
  heart: HeartbeatSender,
  options: AgentOptions,
): Promise<AgentResult> {
  const { task, fence } = options;
  const tell = reportTo(fleet, options.type);
  if (task === undefined) return offered(fleet, heart, options, tell);
  const handle =
    fence === undefined ? await fleet.takeTask(task, { heartbeats: true }) : fleet.task(task, { fence });
  return carryOut(fleet, heart, options, assignmentByName(handle, fence !== undefined), tell);
}

/** Waits for an offer that it takes, and carries that out. */
async function offered(
  fleet: FleetClient,
  heart: HeartbeatSender,
  options: AgentOptions,
  tell: Tell,
): Promise<AgentResult> {
  const { type, signal, onOffer } = options;
  const ended = Promise.withResolvers<AgentResult>();
  let isTaken = false;
  const giveUp = () => {
    if (!isTaken) ended.resolve(NOTHING);
  };
  signal?.addEventListener("abort", giveUp);
  heart.set({ state: "idle" });
  const stop = await fleet.onOffer(type, async (offer) => {
    if (signal?.aborted) return;
    if (onOffer !== undefined && !(await onOffer(offer.data))) return;
    const { task } = await offer.acknowledge({ heartbeats: true });
    isTaken = true;
    const assignment: Assignment = assignmentByOffer(task, offer.data);
    carryOut(fleet, heart, options, assignment, tell).then(ended.resolve, ended.reject);
    // The hand stays busy until nothing more is taken, so that no other offer comes to an agent that is about to end.
    await whenAborted(offer.signal);
  });
  try {
    return await ended.promise;
  } finally {
    signal?.removeEventListener("abort", giveUp);
    await stop();
  }
}
