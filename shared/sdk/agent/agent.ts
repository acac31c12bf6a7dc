/**
 * The loop around an agent: it gets a task, by an offer or by name, brings back where the work stands, keeps saying that it lives, writes
 * checkpoints by the policy, and hands the task off when a trigger fires. What is left to the agent is the work.
 */

import { invalid } from "../../protocol/errors.ts";
import type { FleetClient } from "../client.ts";
import { connect } from "../connect.ts";
import type { Heart } from "../heartbeat.ts";
import { type Assignment, carryOut } from "./carrying-out.ts";
import type { AgentOptions, AgentResult } from "./options.ts";

const NOTHING: AgentResult = { outcome: "stopped", taskId: null, checkpointId: null, handoffId: null };

/** One task, from the start or an offer to the agent's end of it. Throws what the work threw. */
export async function runAgent(options: AgentOptions): Promise<AgentResult> {
  if (options.fence !== undefined && options.task === undefined) {
    throw invalid("task", "the task of the fence");
  }
  const fleet = options.fleet ?? (await connect(options.connect));
  const heart = fleet.startHeartbeat({
    agentType: options.type,
    state: "starting",
    sessionId: options.sessionId,
  });
  try {
    if (options.signal?.aborted) return NOTHING;
    if (options.task === undefined) return await offered(fleet, heart, options);
    const { task, fence } = options;
    const handle = fence === undefined ? await fleet.takeTask(task) : fleet.task(task, { fence });
    return await carryOut(fleet, heart, options, { task: handle, offer: null });
  } finally {
    await heart.stop();
    if (options.fleet === undefined) await fleet.close();
  }
}

/** Waits for an offer that it takes, and carries that out. */
async function offered(fleet: FleetClient, heart: Heart, options: AgentOptions): Promise<AgentResult> {
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
    const { task } = await offer.acknowledge();
    isTaken = true;
    const assignment: Assignment = { task, offer: offer.data };
    carryOut(fleet, heart, options, assignment).then(ended.resolve, ended.reject);
    // The hand stays busy until nothing more is taken, so that no other offer comes to an agent that is about to end.
    await aborted(offer.signal);
  });
  try {
    return await ended.promise;
  } finally {
    signal?.removeEventListener("abort", giveUp);
    await stop();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
