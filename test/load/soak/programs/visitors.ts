// Agents that come for one task and leave: each has a connection and an id of its own. Every third completes its task, every third hands it
// off, and every third falls silent, so that the fleet recovers the task.

import { setTimeout as sleep } from "node:timers/promises";
import type { FleetClient, HeartbeatSender, ReceivedOffer, TaskHandle } from "../../../../shared/sdk/sdk.ts";
import { AGENT_TYPE, checkpointOf, commanded, counts } from "./work.ts";

export const COMMANDS_OF_VISIT = 7;
/** On a busy machine the first answer of a fleet is late. */
export const TAKE_MS = 90_000;
/** How long a visitor works between two of its commands. */
const PAUSE_MS = 300;

const pause = () => sleep(PAUSE_MS);

export async function visit(client: FleetClient, number: number): Promise<void> {
  const fate = FATES[number % FATES.length]!;
  let heartbeat: HeartbeatSender | undefined;
  try {
    const taskId = `visit-${number}`;
    const task = await client.takeTask(taskId, { heartbeats: true, deadlineMs: TAKE_MS });
    const { fence } = task;
    counts.commands += 1;
    heartbeat = client.startHeartbeat({ state: "working", agentType: AGENT_TYPE, taskId, fence });
    const { checkpointId } = await commanded(task.checkpoint(checkpointOf(number, 1)));
    await pause();
    await commanded(task.update(checkpointId, { execution_state: { progress_percent: 50 } }));
    await pause();
    await fate?.(task, number);
  } finally {
    // Without a connection the heartbeat has no end that others hear, as when the process is killed.
    if (fate === null) await client.close();
    await heartbeat?.stop();
    if (fate !== null) await client.close();
  }
}

async function completed(task: TaskHandle, number: number): Promise<void> {
  const { checkpointId } = await commanded(task.checkpoint(checkpointOf(number, 2, "complete")));
  await commanded(task.finalize(checkpointId, "succeeded"));
  counts.completed += 1;
}

async function handedOff(task: TaskHandle, number: number): Promise<void> {
  await commanded(task.checkpoint(checkpointOf(number, 2, "handoff"), { handoff: {} }));
}

/** null: it falls silent. */
const FATES = [completed, handedOff, null] as const;

/** A resident agent continues an offered task and completes it. */
export async function continueOffered(offer: ReceivedOffer): Promise<void> {
  const { task } = await offer.acknowledge();
  counts.commands += 1;
  if (offer.data.recovery == null) counts.handoffs += 1;
  else counts.recoveries += 1;
  const number = Number(/\d+$/.exec(offer.data.task_id)?.[0] ?? 0);
  await commanded(task.checkpoint(checkpointOf(number, 3, "implementing", "reassignment")));
  await completed(task, number);
}
