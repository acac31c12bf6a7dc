// Agents for operators, one line each.

import type { Agent, AgentPage } from "../../../../shared/protocol/agents.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { counted, plain, principalText } from "../terminal/text.ts";
import { ago, brieflyAgo, span } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

const FIT = [
  { least: 12, names: true },
  { leaves: 3 },
  { least: 12, names: true },
  undefined,
  undefined,
  { brief: brieflyAgo },
  { brief: brieflyAgo, leaves: 2 },
  { least: 8, leaves: 1 },
] as const;
/** A reader that has listened for less than this has not received a heartbeat from every agent. */
export const FULL_LISTENING_MS = 3 * LIMITS.heartbeat_ms;

export function renderAgents(page: AgentPage, next: string | undefined, view: View): string {
  const { agents, listening_since } = page;
  const heads = ["AGENT", "TYPE", "TASK", "FENCE", "STATE", "LAST HEARTBEAT", "SINCE", "HOST"];
  const rows = agents.map((agent) => [
    principalText(agent.agent_id),
    plain(agent.agent_type ?? "-"),
    plain(agent.task_id ?? "-"),
    String(agent.fence ?? "-"),
    stateText(agent, view),
    agent.last_beat_at === null ? "-" : ago(agent.last_beat_at, view.now),
    agent.first_beat_at === null ? "-" : ago(agent.first_beat_at, view.now),
    plain(agent.host === null ? "-" : agent.pid === null ? agent.host : `${agent.host}/${agent.pid}`),
  ]);
  const listenedMs = view.now - Date.parse(listening_since);
  return [
    ...(rows.length === 0 && next === undefined
      ? ["No agents."]
      : [
          ...tableLines(rows, { heads, view, right: [3], fit: FIT }),
          "",
          ...pageEnd(counted(agents.length, "agent"), next, view),
        ]),
    ...(listenedMs < FULL_LISTENING_MS
      ? [
          "",
          view.colors.yellow(
            `The reader has listened for only ${span(listenedMs)}: agents may be missing, so try again.`,
          ),
        ]
      : []),
  ].join("\n");
}

/** An agent that works on a task of another owner is highlighted. */
function stateText({ state, owner }: Agent, { colors }: View): string {
  if (owner === false) return colors.red(`${state}, not the owner`);
  if (state === "silent" || state === "unmonitored") return colors.yellow(state);
  return state === "working" ? colors.green(state) : state;
}
