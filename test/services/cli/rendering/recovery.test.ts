// Recoveries as operators see them, word for word.

import { describe, expect, test } from "vitest";
import { renderTask } from "../../../../services/cli/rendering/operations/task.ts";
import { renderTasks } from "../../../../services/cli/rendering/operations/task-table.ts";
import {
  type RecoveryDetails,
  renderRecovery as renderDetails,
} from "../../../../services/cli/rendering/recovery/recovery-details.ts";
import { renderRecoveryRequest } from "../../../../services/cli/rendering/recovery/recovery-request.ts";
import { renderRecoveries } from "../../../../services/cli/rendering/recovery/recovery-table.ts";
import { recoveryLine } from "../../../../services/cli/rendering/recovery/recovery-text.ts";
import { WHOLE_BUDGET } from "../../../../shared/lifecycle/task.ts";
import type { Recovery } from "../../../../shared/protocol/recovery-record.ts";
import { BLOCK_REASONS } from "../../../../shared/protocol/recovery-states.ts";
import type { Handoff, RecoveryResult, Task } from "../../../../shared/sdk/sdk.ts";
import { A, idle, recovery, task } from "./recovery-fixtures.ts";
import { view } from "./view.ts";

const renderRecovery = (
  one: Task,
  fleet = "fleet",
  parts: Partial<Pick<RecoveryDetails, "handoff" | "presence">> = {},
): string => renderDetails({ task: one, handoff: null, presence: null, ...parts }, fleet, view);

const blocked = {
  ...task,
  state: "blocked",
  recovery: {
    ...recovery,
    state: "blocked",
    attempts: 5,
    rung: "previous",
    due_at: null,
    action: "block",
  },
  blocked: {
    ...{ reason: "attempts_spent", details: "killed", at: "2026-01-04T15:34:55.000Z" },
    ...{ alert_seq: 9, taken_by: null },
  },
} as const satisfies Task;

describe("the details of a recovery", () => {
  test("that waits for its next attempt", () => {
    expect(renderRecovery(task, "fleet")).toBe(
      [
        "Task: auth, active",
        "Recovery: waiting",
        "Attempts: 1 of 5 after 2 failures, from the latest sound checkpoint",
        "Next attempt: 2026-01-04T15:35:30.000Z (in 30s)",
        "Last failure: out of memory of agent-7 (qa), 2026-01-04T15:34:55.000Z (5s ago)",
        "  detected by: exit report",
        "  details: killed\ufffd[2J",
        "  last sign of life: 2026-01-04T15:34:50.000Z (10s ago)",
        "  action: back off",
        "Waits for: agents of type qa",
        "Last attempt: 2026-01-04T15:30:00.000Z (5m ago)",
        `From checkpoint: chk-${A}`,
        "Owner: none, fence 3",
      ].join("\n"),
    );
  });

  test("that is blocked name the cause and the next step", () => {
    const text = renderRecovery(blocked, "npx fleet");
    expect(text).toContain("\nBlocked: attempts spent, 2026-01-04T15:34:55.000Z (5s ago)\nWhy: killed\n");
    expect(text).toContain("\nAttempts: 5 of 5 after 2 failures, from the previous sound checkpoint\n");
    expect(text).toMatch(
      /\n\nEvery attempt of the policy failed\. .*\n {2}npx fleet audit show auth\n {2}npx fleet recovery start auth --dry-run\n {2}npx fleet recovery reset auth$/,
    );
  });

  test("that no agent accepted suggest another offer within the budget", () => {
    const reason = { reason: "no_agent", details: null, at: "2026-01-04T15:34:55.000Z" } as const;
    const one = { ...blocked, blocked: { ...blocked.blocked, ...reason } };
    expect(renderRecovery(one, "fleet")).toMatch(
      /\n\nNo agent accepted it\. .*\n {2}fleet agents list\n {2}fleet handoff show auth\n {2}fleet recovery run auth$/,
    );
  });

  test.each([
    [
      "agent_type_unknown",
      /type that does not exist\. .*\n.*handoff show auth\n {2}fleet recovery start auth --to <type>$/,
    ],
    ["prompt_over_budget", /offer\.prompt_tokens .*\n.*handoff show auth\n {2}fleet recovery run auth$/],
  ] as const)("that are blocked for %s do not advise to start an agent", (reason, advice) => {
    const one = { ...blocked, blocked: { ...blocked.blocked, reason } };
    const handoff = { handoff_id: A, to_agent_type: "writer" } as Handoff;
    const text = renderRecovery(one, "fleet", { handoff });
    expect(text).toMatch(advice);
    expect(text).not.toContain("agents list");
    expect(text).not.toContain("Offered to");
  });

  test("that was requested name the caller and its reason", () => {
    const requested = (by: string | null, reason: string | null): string => {
      const choice = { checkpoint_id: null, to_agent_type: null, reason, by };
      return renderRecovery({ ...task, recovery: { ...recovery, choice } }, "fleet");
    };
    expect(requested("cli-anna", "key re\u001bnewed")).toContain("\nRequested: by cli-anna: key re�newed\n");
    expect(requested("human=anna", null)).toContain("\nRequested: by anna (person)\n");
    expect(requested(null, null)).not.toContain("Requested");
  });

  test("that is offered name the agent type and its available agents, until an agent has accepted", () => {
    const offered = { ...recovery, state: "attempted", handoff_id: A, due_at: null } as const;
    const handoff = { to_agent_type: "writer" } as Handoff;
    const presence = { agent_type: "writer", is_free: true, agents: [idle("agent-9")] };
    const text = renderRecovery({ ...task, recovery: offered }, "fleet", { handoff, presence });
    expect(text).toContain("\nRecovery: attempted, waits for an agent (writer)\n");
    expect(text).toContain("\nWaits for: agents of type writer\nAvailable agents: agent-9 (free, 4s ago)\n");
    expect(renderRecovery({ ...task, recovery: offered })).toContain("waits for an agent\n");
    expect(text).toMatch(new RegExp(`\n {2}fleet agents list\n {2}fleet handoff show ${A}$`));
    const accepted = renderRecovery({ ...task, owner: "agent-8", recovery: offered }, "fleet");
    expect(accepted).toContain("\nRecovery: attempted, waits for agent-8\n");
    expect(accepted).toMatch(/\nOwner: agent-8, fence 3$/);
    expect(accepted).not.toContain("Waits for");
  });

  test("without a checkpoint show how to write one, and name no next agent", () => {
    const reason = { reason: "no_checkpoint", details: null, at: "2026-01-04T15:34:55.000Z" } as const;
    const choice = { checkpoint_id: null, to_agent_type: "qa", reason: null, by: "anna" };
    const text = renderRecovery({
      ...blocked,
      blocked: { ...blocked.blocked, ...reason },
      recovery: { ...blocked.recovery, choice },
    });
    expect(text).not.toContain("Waits for");
    expect(text).toMatch(
      /\n {2}fleet checkpoint --task auth --type qa --phase planning --next "Begin"\n {2}fleet recovery run auth$/,
    );
  });

  test("without a checkpoint show how to write one, also if they are blocked for another reason", () => {
    expect(renderRecovery({ ...blocked, latest_id: null })).toMatch(
      /\nThere is no checkpoint to continue from\. .*\n.*\n {2}fleet checkpoint --task auth --type qa .*\n {2}fleet recovery run auth$/,
    );
  });

  test("with more attempts than the budget, after requests of operators", () => {
    const text = renderRecovery({ ...task, recovery: { ...recovery, attempts: 6 } }, "fleet");
    expect(text).toContain("\nAttempts: 6 (budget: 5) after 2 failures, ");
  });

  test.each(BLOCK_REASONS)("that is blocked for %s name that reason", (reason) => {
    const one = {
      ...blocked,
      blocked: { ...blocked.blocked, reason },
    };
    expect(renderRecovery(one, "fleet")).toContain(`Blocked: ${reason.replaceAll("_", " ")}, `);
  });

  test("of a task that a handoff blocked show the block and the next step", () => {
    const untried = {
      ...recovery,
      ...WHOLE_BUDGET,
      recent: [] as string[],
      completed_items: 0,
      state: "blocked",
      due_at: null,
    } as const;
    const reason = { reason: "no_agent", details: "no agent of type writer" } as const;
    const one: Task = { ...blocked, recovery: untried, blocked: { ...blocked.blocked, ...reason } };
    const handoff = { handoff_id: A, to_agent_type: "writer" } as Handoff;
    const text = renderRecovery(one, "fleet", { handoff });
    expect(text).toContain(
      "\nBlocked: no agent, 2026-01-04T15:34:55.000Z (5s ago)\nWhy: no agent of type writer\n" +
        `Offered to: agents of type writer\nHandoff: ${A}\n`,
    );
    expect(text).not.toContain("Attempts");
    expect(text).toMatch(/\n {2}fleet recovery run auth$/);
  });

  test("of a blocked task that an agent has taken name this agent", () => {
    const taken = { ...blocked.blocked, taken_by: "anna" };
    expect(renderRecovery({ ...blocked, recovery: null, blocked: taken })).toBe(
      "Task auth was blocked (attempts spent). anna has taken it.",
    );
  });

  test("of a task whose agents have never failed", () => {
    expect(renderRecovery({ ...task, recovery: null }, "fleet")).toBe("No agent of task auth has failed.");
  });
});

test("names no agent type while the recovery point decides on it", () => {
  const text = renderRecovery({ ...task, recovery: { ...recovery, to_agent_type: null } });
  expect(text).toContain("\nRecovery: waiting\n");
  expect(text).not.toContain("Waits for");
});

describe("the list of recoveries", () => {
  test("shows the last failure and the next step", () => {
    const other = (name: string, changes: Partial<Recovery>): Task => ({
      ...task,
      task_id: name,
      recovery: { ...recovery, ...changes },
    });
    const tasks = [
      task,
      blocked,
      other("due", { due_at: "2026-01-04T15:34:00.000Z" }),
      other("taken", { state: "attempted" }),
      other("passed", { state: "attempted" }),
      other("going", { state: "resumed", failure: null, attempts_max: null }),
    ];
    const offeredTo = new Map([["passed", "writer"]]);
    expect(renderRecoveries({ tasks, offeredTo, next: undefined, fleet: "fleet" }, view).split("\n")).toEqual(
      [
        "TASK    STATE      ATTEMPTS  LAST FAILURE              WHEN    NEXT",
        "auth    waiting    1 of 5    out of memory of agent-7  5s ago  attempt in 30s",
        "auth    blocked    5 of 5    out of memory of agent-7  5s ago  waits for an operator: attempts spent",
        "due     waiting    1 of 5    out of memory of agent-7  5s ago  attempt now",
        "taken   attempted  1 of 5    out of memory of agent-7  5s ago  waits for an agent",
        "passed  attempted  1 of 5    out of memory of agent-7  5s ago  waits for an agent (writer)",
        "going   resumed    1         -                         -       waits for progress",
        "",
        "6 tasks",
        "Details: `fleet recovery show <task>`",
      ],
    );
  });

  test("may be empty", () => {
    expect(renderRecoveries({ tasks: [], offeredTo: new Map(), next: undefined, fleet: "fleet" }, view)).toBe(
      "No open recoveries and no blocked tasks.",
    );
  });
});

test("the page of a task shows its block and its open handoff", () => {
  expect(renderTask(blocked, view)).toContain(
    "\nBlocked: attempts spent: killed, 2026-01-04T15:34:55.000Z (5s ago)\n",
  );
  const deadline = "2026-01-04T15:35:30.000Z";
  const handoff = { handoff_id: A, to_agent_type: "writer", state: "offered", deadline } as Handoff;
  expect(renderTask(task, view, { handoff })).toContain(
    `\nHandoff: ${A} to agents of type writer, offered until 2026-01-04T15:35:30.000Z (in 30s)\n`,
  );
});

test("the page of a task says that its shredding is requested, approved or done", () => {
  const times = { expires_at: "2026-01-04T15:35:30.000Z", approved_at: "2026-01-04T15:34:55.000Z" };
  const shredIn = (state: string) => ({ ...times, state, ended_at: times.approved_at }) as Task["shred"];
  const shown = (state: string) => renderTask({ ...task, shred: shredIn(state)! }, view);
  expect(renderTask(task, view)).not.toContain("Shredding");
  expect(shown("requested")).toContain(
    "\nShredding: requested, not approved; another person may approve it until 2026-01-04T15:35:30.000Z (in 30s)\n",
  );
  expect(shown("approved")).toContain(
    "\nShredding: approved, 2026-01-04T15:34:55.000Z (5s ago); all content is being removed\n",
  );
  expect(shown("shredded")).toContain(
    `\nShredding: all content is removed, 2026-01-04T15:34:55.000Z (5s ago); proved by \`fleet task shred-certificate ${task.task_id}\`\n`,
  );
  expect(shown("approved")).toMatch(/\nLatest: \S+\n/);
  expect(shown("shredded")).toMatch(/\nLatest: \S+, removed\n/);
  const retained = (holds: string[]) =>
    renderTask({ ...task, shred: shredIn("shredded")!, retention: { policy: null, holds } }, view);
  expect(retained([])).not.toContain("Retention");
  expect(retained(["case-7"])).toContain(
    "\nRetention: on hold (case-7); otherwise kept as the settings say\n",
  );
  expect(renderTask({ ...task, audit_seq: 1 }, view)).toContain("\nAudit trail: 1 entry, head");
  const listed = (state: string) => {
    const one = { ...task, progress_percent: null, shred: shredIn(state)! };
    return renderTasks({ tasks: [one], next: undefined }, view);
  };
  expect(listed("requested")).not.toContain("shredded");
  expect(listed("approved")).toContain(`${task.state}, being shredded`);
  expect(listed("shredded")).toContain(`${task.state}, shredded`);
});

test("the page of a task has one line for its recovery, and none if no agent has failed", () => {
  expect(renderTask(task, view)).toContain(
    "\nRecovery: waiting, 1 of 5 attempts after out of memory of agent-7; attempt in 30s\n",
  );
  expect(renderTask({ ...task, recovery: null }, view)).not.toContain("Recovery");
  expect(recoveryLine(task, { ...recovery, state: "idle", attempts: 0 }, view)).toBe("idle");
  const failure = { ...recovery.failure!, signal: "request" as const };
  expect(recoveryLine(task, { ...recovery, state: "resumed", failure }, view)).toBe(
    "resumed, 1 of 5 attempts after request (taken from agent-7); waits for progress",
  );
  const once = { ...recovery, attempts_max: null, failure: null };
  expect(recoveryLine(task, once, view)).toBe("waiting, 1 attempt; attempt in 30s");
});

test("a requested recovery names its checkpoint: the latest one for certain only with the whole budget", () => {
  const request = {
    taskId: "auth",
    recovery: "waiting",
    checkpointId: null,
    fence: 4,
    commandId: A,
  } as unknown as RecoveryResult;
  const lines = (changes: Partial<RecoveryResult>, reset: boolean, replaced: Handoff | null = null) =>
    renderRecoveryRequest({ ...request, ...changes, reset, replaced }, "fleet", view).split("\n");
  const from = (changes: Partial<RecoveryResult>, reset: boolean) => lines(changes, reset)[1];
  expect(from({}, true)).toBe("From: the latest sound checkpoint");
  expect(from({}, false)).toBe(
    "From: the latest sound checkpoint, or the previous one if attempts from it made no progress",
  );
  expect(from({ checkpointId: A }, false)).toBe(`From: chk-${A}`);
  const attempt = { handoff_id: A, recovery: { attempt: 2, class: "crash" } } as Handoff;
  expect(lines({}, false, attempt)[3]).toBe(`Cancelled: handoff ${A}, which was attempt 2 and counts`);
  expect(lines({}, true, attempt)[3]).toBe(`Cancelled: handoff ${A}, which was attempt 2`);
  expect(lines({}, false, { ...attempt, recovery: null })[3]).toBe(`Cancelled: handoff ${A}, which was open`);
});
