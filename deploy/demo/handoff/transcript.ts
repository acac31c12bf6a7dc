/** The lines of the second part's transcript, for the messages of agents and the events of the fleet. */
import type { FleetEvent } from "../../../shared/sdk/sdk.ts";
import type { AgentMessage } from "../process.ts";
import type { Timeline, Tone } from "../timeline.ts";

const PROMPT_LINES = 11;
const PROMPT_CHARS = 118;

export function printHandoffMessage(timeline: Timeline, message: AgentMessage): void {
  const [text, tone] = MESSAGES[message.did]?.(message) ?? [];
  if (text !== undefined) timeline.print(message.agent, text, tone);
}

const MESSAGES: Readonly<Record<string, (message: AgentMessage) => [string, Tone?]>> = {
  began: ({ pending, fence }) => [`owns the task under fence ${fence}: ${pending} folders to survey`],
  resumed: ({ from, by, done, next, fence }) => [
    `continues under fence ${fence} from ${from} by ${by}: ${done} done, next: ${next}`,
    "note",
  ],
  working: ({ item }) => [`works on ${item}`],
  surveyed: (message) => [`has read ${message.item}; ${utilization(message)}`],
  recounting: () => ["recounts the longest file of each folder"],
  recounted: (message) => [`confirms ${message.right} of ${message.of} results; ${utilization(message)}`],
  phase: ({ next }) => [`has surveyed all folders; the next phase is ${next}`],
  over: ({ outcome }) => [`ends its run: ${outcome}`, "good"],
  writing: ({ fence }) => [`is awake, and writes a checkpoint under fence ${fence}`],
  wrote: ({ id }) => [`wrote ${id}`, "bad"],
  refused: ({ code, text, details }) => [`refused: ${code}, ${text} ${JSON.stringify(details)}`, "bad"],
};

const utilization = ({ tokens, contextLimit }: AgentMessage): string =>
  `context ${Math.round((100 * Number(tokens)) / Number(contextLimit))} % full`;

/** Prints the first lines of an agent's prompt, and its section about what it leaves out. */
export function printPrompt(timeline: Timeline, { agent, prompt, promptTokens }: AgentMessage): void {
  const lines = String(prompt).split("\n");
  const leftOut = lines.indexOf("## Left out");
  const end = lines.indexOf("", leftOut);
  timeline.print(
    agent,
    `the beginning of its prompt (${promptTokens} tokens), and what the prompt leaves out:`,
  );
  const beginning = lines.filter((line) => line !== "").slice(0, PROMPT_LINES);
  for (const line of [...beginning, "…", ...lines.slice(leftOut, end)]) {
    timeline.quote(line.length > PROMPT_CHARS ? `${line.slice(0, PROMPT_CHARS)}…` : line);
  }
}

export function printHandoffEvent(timeline: Timeline, event: FleetEvent): void {
  const text = EVENTS[event.type]?.(event.data as Record<string, unknown>);
  if (text !== undefined) timeline.print("fleet", text, "note");
}

const EVENTS: Readonly<Record<string, (data: Record<string, unknown>) => string>> = {
  AGENT_HANDOFF: ({ fromAgent, reason }) => `handoff requested by ${fromAgent}: ${reason}`,
  HANDOFF_VALIDATED: ({ toAgent }) => `the checkpoints are sound; the next agent type is ${toAgent}`,
  HANDOFF_OFFERED: ({ toAgent, attempt }) => `offered to agents of type ${toAgent}, attempt ${attempt}`,
  HANDOFF_ACKNOWLEDGED: ({ agentId, fence, previousOwner }) =>
    `accepted: ${agentId} owns the task under fence ${fence}; ${previousOwner} is superseded`,
  HANDOFF_CONFIRMED: ({ agentId, checkpointId }) =>
    `confirmed by the first checkpoint of ${agentId}, ${checkpointId}`,
  HANDOFF_FAILED: ({ state, reason }) => `handoff ${state}: ${reason}`,
  TASK_BLOCKED: ({ reason }) => `task blocked: ${reason}`,
  CHECKPOINT_FINALIZED: ({ checkpointId, status }) => `${checkpointId} finalized: ${status}`,
};
