// A task with a recovery, and an agent that waits for work.

import type { Agent } from "../../../../shared/protocol/agents.ts";
import type { Recovery } from "../../../../shared/protocol/recovery-record.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";

export const A = "01a20034-080b-7e0f-afff-92b62777977f";

export const recovery: Recovery = {
  state: "waiting",
  failures: 2,
  attempts: 1,
  attempts_max: 5,
  rung: "latest",
  rung_attempts: 1,
  avoid_id: A,
  recent: [],
  completed_items: 3,
  failure: {
    class: "out_of_memory",
    signal: "exit_report",
    agent_id: "agent-7",
    agent_type: "qa",
    fence: 2,
    details: "killed\u001b[2J",
    resets_at: null,
    last_sign_at: "2026-01-04T15:34:50.000Z",
    noted_at: "2026-01-04T15:34:55.000Z",
  },
  action: "back_off",
  is_probe: false,
  choice: null,
  to_agent_type: "qa",
  checkpoint_id: A,
  handoff_id: null,
  due_at: "2026-01-04T15:35:30.000Z",
  attempted_at: "2026-01-04T15:30:00.000Z",
  resumed_at: null,
};

export const task: Task = {
  task_id: "auth",
  tenant: "default",
  state: "active",
  phase: "testing",
  agent_id: "agent-7",
  agent_type: "qa",
  latest_id: A,
  last_successful_id: null,
  seq: 4,
  owner: null,
  fence: 3,
  handoff_id: null,
  recovery,
  blocked: null,
  origin: null,
  audit_seq: 9,
  audit_hash: "0".repeat(64),
  created_at: "2026-01-04T15:00:00.000Z",
  updated_at: "2026-01-04T15:34:55.000Z",
};

export const idle = (agent_id: string, changes: Partial<Agent> = {}): Agent => ({
  ...{ agent_id, agent_type: "qa", task_id: null, fence: null, owner: null, state: "idle" },
  ...{ step_deadline: null, session_id: null, host: null, pid: null },
  ...{ first_beat_at: "2026-01-04T15:34:00.000Z", last_beat_at: "2026-01-04T15:34:56.000Z" },
  ...changes,
});
