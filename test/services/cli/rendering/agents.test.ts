// The table of agents: working, silent, and on a task of another owner.

import { describe, expect, test } from "vitest";
import { renderAgents } from "../../../../services/cli/rendering/operations/agents.ts";
import type { Agent, AgentPage } from "../../../../shared/protocol/agents.ts";
import { NOW, view } from "./view.ts";

const at = (msAgo: number): string => new Date(NOW - msAgo).toISOString();
const AGENT: Agent = {
  agent_id: "qa-1",
  agent_type: "qa",
  task_id: "US-003",
  fence: 4,
  owner: true,
  state: "working",
  step_deadline: null,
  session_id: null,
  host: "build-3",
  pid: 4_711,
  first_beat_at: at(3_700_000),
  last_beat_at: at(1_500),
};
const page = (agents: Agent[], more: Partial<AgentPage> = {}): AgentPage => ({
  agents,
  listening_since: at(60_000),
  ...more,
});

describe("the table of agents", () => {
  test("has a line for each agent", () => {
    const silent: Agent = {
      ...AGENT,
      agent_id: "docs-2",
      agent_type: null,
      state: "silent",
      host: null,
      pid: null,
      first_beat_at: null,
      last_beat_at: null,
    };
    const superseded: Agent = { ...AGENT, agent_id: "qa-\u001b[2J0", owner: false, fence: 3 };
    expect(renderAgents(page([AGENT, superseded, silent]), undefined, view).split("\n")).toEqual([
      "AGENT     TYPE  TASK    FENCE  STATE                   LAST HEARTBEAT  SINCE   HOST",
      "qa-1      qa    US-003      4  working                 1s ago          1h ago  build-3/4711",
      "qa-\ufffd[2J0  qa    US-003      3  working, not the owner  1s ago          1h ago  build-3/4711",
      "docs-2    -     US-003      4  silent                  -               -       -",
      "",
      "3 agents",
    ]);
  });

  test("ends with the command for the next page", () => {
    expect(renderAgents(page([AGENT]), "fleet agents list --cursor abc", view)).toContain(
      "1 agent; more with:\n  fleet agents list --cursor abc",
    );
  });

  test("warns if the reader has just started to listen", () => {
    const text = renderAgents(page([], { listening_since: at(1_000) }), undefined, view);
    expect(text).toBe(
      "No agents.\n\nThe reader has listened for only 1s: agents may be missing, so try again.",
    );
  });
});
