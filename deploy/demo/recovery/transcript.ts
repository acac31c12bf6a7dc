/** The lines of the third part's transcript, each with the kind of its task, for the messages of agents and the events of the fleet. */
import type { FleetEvent } from "../../../shared/sdk/sdk.ts";
import type { AgentMessage } from "../process.ts";
import type { Timeline, Tone } from "../timeline.ts";

/** The prefix of the task id, which is the kind of failure. */
const kindOf = (task: unknown): string => String(task).replace(/-.*/, "");

export function printRecoveryMessage(timeline: Timeline, message: AgentMessage): void {
  const [text, tone] = MESSAGES[message.did]?.(message) ?? [];
  if (text !== undefined) timeline.print(message.agent, `${kindOf(message.task)}: ${text}`, tone);
}

const MESSAGES: Readonly<Record<string, (message: AgentMessage) => [string, Tone?]>> = {
  began: ({ pending, fence }) => [`owns the task under fence ${fence}: ${pending} folders to survey`],
  resumed: ({ from, by, done, next, fence }) => [
    `continues under fence ${fence} from ${from} by ${by}: ${done} done, next: ${next}`,
    "note",
  ],
  hanging: ({ item, stepMs }) => [
    stepMs === undefined
      ? `works on ${item}`
      : `announces a step of at most ${stepMs} ms on ${item}, and hangs; its heartbeats continue`,
  ],
  finished: ({ done }) => [`has surveyed the remaining ${done} folders`, "good"],
  writing: ({ fence }) => [`writes a checkpoint under fence ${fence}`],
  wrote: ({ id }) => [`wrote ${id}`, "bad"],
  refused: ({ code, text, details }) => [`refused: ${code}, ${text} ${JSON.stringify(details)}`, "bad"],
};

export function printRecoveryEvent(timeline: Timeline, event: FleetEvent): void {
  const text = EVENTS[event.type]?.(event.data as Record<string, unknown>);
  if (text !== undefined) timeline.print("fleet", `${kindOf(event.subject)}: ${text}`, "note");
}

const SIGNALS: Readonly<Record<string, string>> = {
  lease_lapsed: "it sends no heartbeats",
  step_overdue: "it is alive, but its step is overdue",
};

const EVENTS: Readonly<Record<string, (data: Record<string, unknown>) => string>> = {
  AGENT_FAILED: ({ agentId, class: failure, signal, fence }) =>
    `${agentId} has failed (${failure}): ${SIGNALS[String(signal)] ?? signal}; its fence ${fence} is revoked`,
  CHECKPOINT_RESTORED: ({ checkpointId, error }) =>
    `${checkpointId} is restored from the file mirror: ${error}`,
  CHECKPOINT_CORRUPTED: ({ checkpointId, error }) => `${checkpointId} is corrupt and quarantined: ${error}`,
  RECOVERY_INITIATED: ({ attempt, checkpointId }) => `recovery attempt ${attempt}, from ${checkpointId}`,
  HANDOFF_OFFERED: ({ toAgent }) => `offered to agents of type ${toAgent}`,
  HANDOFF_ACKNOWLEDGED: ({ agentId, fence }) => `accepted: ${agentId} owns the task under fence ${fence}`,
  HANDOFF_FAILED: ({ state, reason }) => `handoff ${state}: ${reason}`,
  RECOVERY_COMPLETED: ({ newAgentId, firstCheckpointId }) =>
    `recovered: ${newAgentId} has written ${firstCheckpointId}`,
  TASK_BLOCKED: ({ reason }) => `task blocked: ${reason}`,
};
