// Who of a type of agent is there, in a line.

import { isFree, type Presence } from "../../commands/recovery/agent-presence.ts";
import { counted, plain } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";

const SHOWN = 3;

/** `task`: the one that waits for such an agent. */
export function presenceText({ agents, is_free }: Presence, task: string, now: number): string {
  if (agents.length === 0) {
    return is_free === null
      ? "not known yet, for the fleet has just begun to listen; ask again in a moment"
      : "none; a runner says nothing before it has work";
  }
  const seen = agents.slice(0, SHOWN).map((agent) => {
    const when = agent.last_beat_at === null ? "" : `, ${ago(agent.last_beat_at, now)}`;
    return `${plain(agent.agent_id)} (${doing(agent, task)}${when})`;
  });
  const more = agents.length - seen.length;
  return [...seen, ...(more > 0 ? [`and ${counted(more, "other")}`] : [])].join(", ");
}

function doing(agent: Presence["agents"][number], task: string): string {
  const { state, task_id: at } = agent;
  if (isFree(agent)) return "free";
  if (state === "stopping" || at === null) return state;
  return at === task ? "at this very task" : `at task ${plain(at)}`;
}
