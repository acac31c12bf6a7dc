/** The third act as the timeline tells it: what agents say they did, and what the fleet says became true, each with the task it is about. */
import type { FleetEvent } from "../../../shared/sdk/sdk.ts";
import type { Said } from "../process.ts";
import type { Timeline } from "../timeline.ts";

type Tone = Parameters<Timeline["say"]>[2];

/** What a task's name begins with: which of the stories it is. */
const kindOf = (task: unknown): string => String(task).replace(/-.*/, "");

export function tellSaid(timeline: Timeline, said: Said): void {
  const [text, tone] = SAID[said.did]?.(said) ?? [];
  if (text !== undefined) timeline.say(said.agent, `${kindOf(said.task)}: ${text}`, tone);
}

const SAID: Readonly<Record<string, (said: Said) => [string, Tone?]>> = {
  began: ({ pending, fence }) => [`takes the task under fence ${fence}: ${pending} folders to survey`],
  resumed: ({ from, by, done, next, fence }) => [
    `goes on under fence ${fence} from ${from}, written by ${by}: ${done} done, next ${next}`,
    "note",
  ],
  "stands still": ({ item, stepMs }) => [
    stepMs === undefined
      ? `works on ${item}`
      : `begins a step that takes at most ${stepMs} ms, it says, with ${item}; its heart goes on beating`,
  ],
  finished: ({ done }) => [`has surveyed the ${done} folders that were left`, "good"],
  writing: ({ fence }) => [`awake, and writes a checkpoint under fence ${fence}`],
  wrote: ({ id }) => [`wrote ${id}`, "bad"],
  refused: ({ code, text, details }) => [`refused: ${code}, ${text} ${JSON.stringify(details)}`, "bad"],
};

export function tellEvent(timeline: Timeline, event: FleetEvent): void {
  const text = EVENTS[event.type]?.(event.data as Record<string, unknown>);
  if (text !== undefined) timeline.say("fleet", `${kindOf(event.subject)}: ${text}`, "note");
}

const SIGNALS: Readonly<Record<string, string>> = {
  lease_lapsed: "it gives no sign of life",
  step_overdue: "it lives, but its step is overdue",
};

const EVENTS: Readonly<Record<string, (data: Record<string, unknown>) => string>> = {
  AGENT_FAILED: ({ agentId, class: failure, signal, fence }) =>
    `${agentId} has failed (${failure}): ${SIGNALS[String(signal)] ?? signal}; its fence ${fence} is void`,
  CHECKPOINT_CORRUPTED: ({ checkpointId, error }) =>
    `${checkpointId} is corrupt, and never served again: ${error}`,
  RECOVERY_INITIATED: ({ attempt, checkpointId }) => `attempt ${attempt} at recovery, from ${checkpointId}`,
  HANDOFF_OFFERED: ({ toAgent }) => `offered to the ${toAgent} agents`,
  HANDOFF_ACKNOWLEDGED: ({ agentId, fence }) =>
    `accepted: ${agentId} owns the task now, under fence ${fence}`,
  HANDOFF_FAILED: ({ state, reason }) => `handoff ${state}: ${reason}`,
  RECOVERY_COMPLETED: ({ newAgentId, firstCheckpointId }) =>
    `recovered: ${newAgentId} has written ${firstCheckpointId}`,
  TASK_BLOCKED: ({ reason }) => `task blocked: ${reason}`,
};
