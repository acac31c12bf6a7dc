/** The second act as the timeline tells it: what agents say they did, and what the fleet says became true. */
import type { FleetEvent } from "../../../shared/sdk/sdk.ts";
import type { Said } from "../process.ts";
import type { Timeline } from "../timeline.ts";

const PROMPT_LINES = 11;
const PROMPT_CHARS = 118;

export function tellSaid(timeline: Timeline, said: Said): void {
  const [text, tone] = SAID[said.did]?.(said) ?? [];
  if (text !== undefined) timeline.say(said.agent, text, tone);
}

type Tone = Parameters<Timeline["say"]>[2];

const SAID: Readonly<Record<string, (said: Said) => [string, Tone?]>> = {
  began: ({ pending, fence }) => [`takes the task under fence ${fence}: ${pending} folders to survey`],
  resumed: ({ from, by, done, next, fence }) => [
    `goes on under fence ${fence} from ${from}, written by ${by}: ${done} done, next ${next}`,
    "note",
  ],
  working: ({ item }) => [`works on ${item}`],
  surveyed: (said) => [`has read ${said.item}; ${fullness(said)}`],
  reviewed: (said) => [`${said.agreeing} of ${said.of} folders agree; ${fullness(said)}`],
  phase: ({ next }) => [`has surveyed all folders; the work goes on in phase ${next}`],
  over: ({ outcome }) => [`its run is over: ${outcome}`, "good"],
  writing: ({ fence }) => [`awake, and writes a checkpoint under fence ${fence}`],
  wrote: ({ id }) => [`wrote ${id}`, "bad"],
  refused: ({ code, text, details }) => [`refused: ${code}, ${text} ${JSON.stringify(details)}`, "bad"],
};

const fullness = ({ tokens, contextLimit }: Said): string =>
  `context ${Math.round((100 * Number(tokens)) / Number(contextLimit))} % full`;

/** How the prompt begins that an agent got, and what it says was left out. */
export function tellPrompt(timeline: Timeline, { agent, prompt, promptTokens }: Said): void {
  const lines = String(prompt).split("\n");
  const leftOut = lines.indexOf("## Left out");
  const end = lines.indexOf("", leftOut);
  timeline.say(agent, `its prompt, ${promptTokens} tokens, begins, and says what was left out of it:`);
  const begins = lines.filter((line) => line !== "").slice(0, PROMPT_LINES);
  for (const line of [...begins, "…", ...lines.slice(leftOut, end)]) {
    timeline.quote(line.length > PROMPT_CHARS ? `${line.slice(0, PROMPT_CHARS)}…` : line);
  }
}

export function tellEvent(timeline: Timeline, event: FleetEvent): void {
  const text = EVENTS[event.type]?.(event.data as Record<string, unknown>);
  if (text !== undefined) timeline.say("fleet", text, "note");
}

const EVENTS: Readonly<Record<string, (data: Record<string, unknown>) => string>> = {
  AGENT_HANDOFF: ({ fromAgent, reason }) => `handoff requested by ${fromAgent}: ${reason}`,
  HANDOFF_VALIDATED: ({ toAgent }) => `hash and chain of its checkpoints verify; next is a ${toAgent} agent`,
  HANDOFF_OFFERED: ({ toAgent, attempt }) => `offered to the ${toAgent} agents, attempt ${attempt}`,
  HANDOFF_ACKNOWLEDGED: ({ agentId, fence, previousOwner }) =>
    `accepted: ${agentId} owns the task now, under fence ${fence}; ${previousOwner} does not any more`,
  HANDOFF_CONFIRMED: ({ agentId, checkpointId }) =>
    `confirmed by ${agentId}'s first checkpoint ${checkpointId}`,
  HANDOFF_FAILED: ({ state, reason }) => `handoff ${state}: ${reason}`,
  TASK_BLOCKED: ({ reason }) => `task blocked: ${reason}`,
  CHECKPOINT_FINALIZED: ({ checkpointId, status }) => `${checkpointId} finalized: ${status}`,
};
