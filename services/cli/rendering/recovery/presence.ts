// The available agents of one type, in one line.

import { isFree, type Presence } from "../../commands/recovery/agent-presence.ts";
import { counted, plain } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";

const SHOWN = 3;

/** `task`: the task that waits for such an agent. */
export function presenceText({ agents, is_free }: Presence, task: string, now: number): string {
  if (agents.length === 0) {
    return is_free === null
      ? "unknown, because the reader has just started to listen; try again in a moment"
      : "none; a runner is not listed before it has work";
  }
  const shown = agents.slice(0, SHOWN).map((agent) => {
    const when = agent.last_beat_at === null ? "" : `, ${ago(agent.last_beat_at, now)}`;
    return `${plain(agent.agent_id)} (${activity(agent, task)}${when})`;
  });
  const more = agents.length - shown.length;
  return [...shown, ...(more > 0 ? [`and ${counted(more, "other")}`] : [])].join(", ");
}

function activity(agent: Presence["agents"][number], task: string): string {
  const { state, task_id: current } = agent;
  if (isFree(agent)) return "free";
  if (state === "stopping" || current === null) return state;
  return current === task ? "on this task" : `on task ${plain(current)}`;
}
