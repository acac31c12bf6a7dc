// Agents on a page: who works, who is silent, who works on what is somebody else's.

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

describe("agents", () => {
  test("have a line each", () => {
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
    const zombie: Agent = { ...AGENT, agent_id: "qa-\u001b[2J0", owner: false, fence: 3 };
    expect(renderAgents(page([AGENT, zombie, silent]), undefined, view).split("\n")).toEqual([
      "AGENT     TYPE  TASK    FENCE  STATE                   LAST BEAT  SINCE   HOST",
      "qa-1      qa    US-003      4  working                 1s ago     1h ago  build-3/4711",
      "qa-\ufffd[2J0  qa    US-003      3  working, not the owner  1s ago     1h ago  build-3/4711",
      "docs-2    -     US-003      4  silent                  -          -       -",
    ]);
  });

  test("that are more than a page say how to go on", () => {
    expect(renderAgents(page([AGENT]), "fleet agents list --cursor abc", view)).toContain(
      "1 agent; more with:\n  fleet agents list --cursor abc",
    );
  });

  test("of a reader that has just begun to listen may not be all", () => {
    const text = renderAgents(page([], { listening_since: at(1_000) }), undefined, view);
    expect(text).toBe("No agents.\n\nThe reader has listened for 1s only; ask again in a moment.");
  });
});
