// Recoveries as people see them, word for word.

import { describe, expect, test } from "vitest";
import type { Presence } from "../../../../services/cli/commands/recovery/agent-presence.ts";
import { renderTask } from "../../../../services/cli/rendering/operations/task.ts";
import {
  type RecoveryText,
  recoveryLine,
  renderRecoveries,
  renderRecovering,
  renderRecovery as renderRecoveryText,
} from "../../../../services/cli/rendering/recovery/recovery.ts";
import { dryRunOf, renderDryRun } from "../../../../services/cli/rendering/recovery/recovery-preview.ts";
import type { Agent } from "../../../../shared/protocol/agents.ts";
import type { RecoveryPreview } from "../../../../shared/protocol/queries.ts";
import type { Recovery } from "../../../../shared/protocol/recovery-record.ts";
import { BLOCK_REASONS } from "../../../../shared/protocol/recovery-states.ts";
import type { Handoff, RecoveryResult, Task } from "../../../../shared/sdk/sdk.ts";
import { view } from "./view.ts";

const A = "01a20034-080b-7e0f-afff-92b62777977f";

const recovery: Recovery = {
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
  wish: null,
  checkpoint_id: A,
  handoff_id: null,
  due_at: "2026-01-04T15:35:30.000Z",
  attempted_at: "2026-01-04T15:30:00.000Z",
  resumed_at: null,
  blocked: null,
};

const task: Task = {
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
  block: null,
  audit_seq: 9,
  audit_hash: "0".repeat(64),
  created_at: "2026-01-04T15:00:00.000Z",
  updated_at: "2026-01-04T15:34:55.000Z",
};

const idle = (agent_id: string, changes: Partial<Agent> = {}): Agent => ({
  ...{ agent_id, agent_type: "qa", task_id: null, fence: null, owner: null, state: "idle" },
  ...{ step_deadline: null, session_id: null, host: null, pid: null },
  ...{ first_beat_at: "2026-01-04T15:34:00.000Z", last_beat_at: "2026-01-04T15:34:56.000Z" },
  ...changes,
});

const renderRecovery = (
  one: Task,
  fleet = "fleet",
  seen: Partial<Pick<RecoveryText, "handoff" | "presence">> = {},
): string => renderRecoveryText({ task: one, handoff: null, presence: null, ...seen }, fleet, view);

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
    blocked: { reason: "attempts_spent", details: "killed", at: "2026-01-04T15:34:55.000Z" },
  },
} as const satisfies Task;

describe("one in full", () => {
  test("that waits", () => {
    expect(renderRecovery(task, "fleet")).toBe(
      [
        "Task: auth, active",
        "Recovery: waiting",
        "Attempts: 1 of 5 after 2 failures, from the newest checkpoint",
        "Next attempt: 2026-01-04T15:35:30.000Z (in 30s)",
        "Last failure: out of memory of agent-7 (qa), 2026-01-04T15:34:55.000Z (5s ago)",
        "  seen by: exit report",
        "  details: killed\ufffd[2J",
        "  last sign of life: 2026-01-04T15:34:50.000Z (10s ago)",
        "  answered by: back off",
        "Goes on with: agents of type qa",
        "Last attempt: 2026-01-04T15:30:00.000Z (5m ago)",
        `From checkpoint: chk-${A}`,
        "Owner: nobody, fence 3",
      ].join("\n"),
    );
  });

  test("that is blocked says why, and what to do", () => {
    const text = renderRecovery(blocked, "npx fleet");
    expect(text).toContain("\nBlocked: attempts spent, 2026-01-04T15:34:55.000Z (5s ago)\nWhy: killed\n");
    expect(text).toContain(
      "\nAttempts: 5 of 5 after 2 failures, from the checkpoint before the first that was tried, if there is one\n",
    );
    expect(text).toMatch(
      /\n\nEvery attempt of the policy failed\. .*\n {2}npx fleet audit show auth\n {2}npx fleet recover auth --dry-run\n {2}npx fleet recovery reset auth$/,
    );
  });

  test("that nobody took over is offered again, with its budget as it is", () => {
    const reason = { reason: "no_agent", details: null, at: "2026-01-04T15:34:55.000Z" } as const;
    const one = { ...blocked, recovery: { ...blocked.recovery, blocked: reason } };
    expect(renderRecovery(one, "fleet")).toMatch(
      /\n\nNo agent accepted it\. .*\n {2}fleet agents list\n {2}fleet handoffs show auth\n {2}fleet recovery run auth$/,
    );
  });

  test("that somebody asked for says who, and why if that was said", () => {
    const asked = (by: string | null, reason: string | null): string => {
      const wish = { checkpoint_id: null, to_agent_type: null, reason, by };
      return renderRecovery({ ...task, recovery: { ...recovery, wish } }, "fleet");
    };
    expect(asked("cli-anna", "key re\u001bnewed")).toContain("\nAsked for: by cli-anna: key re�newed\n");
    expect(asked("cli-anna", null)).toContain("\nAsked for: by cli-anna\n");
    expect(asked(null, null)).not.toContain("Asked for");
  });

  test("that is offered says to whom, who of them is there, and what to look at, until an agent has taken it", () => {
    const offered = { ...recovery, state: "attempted", handoff_id: A, due_at: null } as const;
    const handoff = { to_agent_type: "writer" } as Handoff;
    const presence = { agent_type: "writer", is_free: true, agents: [idle("agent-9")] };
    const text = renderRecovery({ ...task, recovery: offered }, "fleet", { handoff, presence });
    expect(text).toContain("\nRecovery: attempted, waits for an agent (writer)\n");
    expect(text).toContain("\nGoes on with: agents of type writer\nSeen of them: agent-9 (free, 4s ago)\n");
    expect(renderRecovery({ ...task, recovery: offered })).toContain("waits for an agent (qa)\n");
    expect(text).toMatch(new RegExp(`\n {2}fleet agents list\n {2}fleet handoffs show ${A}$`));
    const accepted = renderRecovery({ ...task, owner: "agent-8", recovery: offered }, "fleet");
    expect(accepted).toContain("\nRecovery: attempted, waits for agent-8\n");
    expect(accepted).toMatch(/\nOwner: agent-8, fence 3$/);
    expect(accepted).not.toContain("Goes on with");
  });

  test("that has nothing to go on from says how to begin it anew, and names nobody who goes on", () => {
    const reason = { reason: "no_checkpoint", details: null, at: "2026-01-04T15:34:55.000Z" } as const;
    const wish = { checkpoint_id: null, to_agent_type: "qa", reason: null, by: "anna" };
    const text = renderRecovery({ ...blocked, recovery: { ...blocked.recovery, blocked: reason, wish } });
    expect(text).not.toContain("Goes on with");
    expect(text).toMatch(
      /\n {2}fleet checkpoint --task auth --type qa --phase planning --next "Begin"\n {2}fleet recovery run auth$/,
    );
  });

  test("more attempts than the policy makes, since people asked for them", () => {
    const text = renderRecovery({ ...task, recovery: { ...recovery, attempts: 6 } }, "fleet");
    expect(text).toContain("\nAttempts: 6 (policy: 5) after 2 failures, ");
  });

  test.each(BLOCK_REASONS)("blocked for %s has words of its own", (reason) => {
    const one = {
      ...blocked,
      recovery: { ...blocked.recovery, blocked: { ...blocked.recovery.blocked, reason } },
    };
    expect(renderRecovery(one, "fleet")).toContain(`Blocked: ${reason.replaceAll("_", " ")}, `);
  });

  test("of a task whose agents never failed", () => {
    expect(renderRecovery({ ...task, recovery: null }, "fleet")).toBe("No agent of task auth has failed.");
  });
});

describe("all of them", () => {
  test("with the newest failure and what comes next", () => {
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
        "auth    blocked    5 of 5    out of memory of agent-7  5s ago  waits for a person: attempts spent",
        "due     waiting    1 of 5    out of memory of agent-7  5s ago  attempt now",
        "taken   attempted  1 of 5    out of memory of agent-7  5s ago  waits for an agent (qa)",
        "passed  attempted  1 of 5    out of memory of agent-7  5s ago  waits for an agent (writer)",
        "going   resumed    1         -                         -       waits for progress",
        "",
        "Total: 6 tasks",
        "In full: `fleet recovery status <task>`.",
      ],
    );
  });

  test("none", () => {
    expect(renderRecoveries({ tasks: [], offeredTo: new Map(), next: undefined, fleet: "fleet" }, view)).toBe(
      "Nothing is recovered now, and nothing waits for a person.",
    );
  });
});

test("the page of a task says it in a line, and nothing where no agent failed", () => {
  expect(renderTask(task, view)).toContain(
    "\nRecovery: waiting, 1 of 5 attempts after out of memory of agent-7; attempt in 30s\n",
  );
  expect(renderTask({ ...task, recovery: null }, view)).not.toContain("Recovery");
  expect(recoveryLine(task, { ...recovery, state: "idle", attempts: 0 }, view)).toBe("idle");
  const failure = { ...recovery.failure!, signal: "request" as const };
  expect(recoveryLine(task, { ...recovery, state: "resumed", failure }, view)).toBe(
    "resumed, 1 of 5 attempts after request, taken from agent-7; waits for progress",
  );
  const once = { ...recovery, attempts_max: null, failure: null };
  expect(recoveryLine(task, once, view)).toBe("waiting, 1 attempt; attempt in 30s");
});

test("who asks for one is told from where it goes on: the newest checkpoint for certain only with the whole budget", () => {
  const asked = {
    taskId: "auth",
    recovery: "waiting",
    checkpointId: null,
    fence: 4,
    commandId: A,
  } as unknown as RecoveryResult;
  const said = (changes: Partial<RecoveryResult>, reset: boolean, replaced: Handoff | null = null) =>
    renderRecovering({ ...asked, ...changes, reset, replaced }, "fleet", view).split("\n");
  const from = (changes: Partial<RecoveryResult>, reset: boolean) => said(changes, reset)[1];
  expect(from({}, true)).toBe("From: the newest checkpoint that verifies");
  expect(from({}, false)).toBe(
    "From: the newest checkpoint that verifies, or the one before if that was tried in vain",
  );
  expect(from({ checkpointId: A }, false)).toBe(`From: chk-${A}`);
  const attempt = { handoff_id: A, recovery: { attempt: 2, class: "crash" } } as Handoff;
  expect(said({}, false, attempt)[3]).toBe(
    `Comes to nothing: handoff ${A}, which was attempt 2; it counts as one`,
  );
  expect(said({}, true, attempt)[3]).toBe(`Comes to nothing: handoff ${A}, which was attempt 2`);
  expect(said({}, false, { ...attempt, recovery: null })[3]).toBe(
    `Comes to nothing: handoff ${A}, which was open`,
  );
});

describe("what it would do", () => {
  const point: RecoveryPreview = {
    checkpoint: {
      metadata: {
        checkpoint_id: A,
        seq: 4,
        agent_id: "agent-7",
        agent_type: "qa",
        committed_at: "2026-01-04T15:30:00.000Z",
      },
      execution_state: { phase: "testing" },
    } as RecoveryPreview["checkpoint"],
    reason: null,
    details: null,
    passed_over: [{ checkpoint_id: A, version: 1, reason: "its hash is another one" }],
    owner: { agent_id: "agent-8", fence: 3, alive_until: "2026-01-04T15:35:05.000Z" },
    offer: { agent_type: "qa", is_known: true, max_attempts: 2, deadline_ms: 90_000 },
  };
  const free = { agent_type: "qa", is_free: true, agents: [idle("agent-9")] };
  const said = (
    changes: Partial<RecoveryPreview>,
    { head = task, presence = free, force }: { head?: Task; presence?: Presence; force?: boolean } = {},
  ) => renderDryRun(dryRunOf(head, { ...point, ...changes }, { force, presence }), view);

  test("where it goes on, what was passed over, who loses the task", () => {
    const open = { ...task, handoff_id: A };
    expect(said({}, { head: open, force: true })).toBe(
      [
        "It would go on. Nothing was changed.",
        "Task: auth, active",
        `From: chk-${A}, number 4, in phase testing`,
        "Written by: agent-7 (qa), 2026-01-04T15:30:00.000Z (5m ago)",
        `Passed over: chk-${A}: its hash is another one`,
        "Goes on with: agents of type qa",
        "Seen of them: agent-9 (free, 4s ago)",
        "Loses the task: agent-8, fence 3",
        `Comes to nothing: handoff ${A}`,
      ].join("\n"),
    );
  });

  test.each([
    [
      "its agent lives",
      {},
      task,
      "CONFLICT",
      "until 2026-01-04T15:35:05.000Z; --force takes the task from it",
    ],
    ["the task is over", {}, { ...task, state: "failed" } as Task, "CONFLICT", "the task is over (failed)"],
    [
      "the chain is broken",
      { checkpoint: null, offer: null, reason: "chain_broken", details: "x does not verify" } as const,
      task,
      "CORRUPT",
      "x does not verify",
    ],
    [
      "there is no checkpoint",
      { checkpoint: null, offer: null, reason: "no_checkpoint", details: "nothing was written yet" } as const,
      task,
      "NOT_FOUND",
      "nothing was written yet",
    ],
  ])("refused: %s", (_why, changes, head, code, words) => {
    expect(dryRunOf(head, { ...point, ...changes }, { presence: null }).refused).toMatchObject({
      code,
    });
    expect(said(changes, { head })).toMatch(/^It would not go on: /);
    expect(said(changes, { head })).toContain(words);
    expect(said(changes, { head })).toContain("\nHas the task: agent-8, fence 3");
  });

  test("whether an agent is there, and what happens when none is", () => {
    const nobody = { force: true, presence: { agent_type: "qa", is_free: false, agents: [] } };
    expect(said({}, nobody).split("\n")).toEqual([
      "It would wait for an agent. Nothing was changed.",
      ...["Task: auth, active", `From: chk-${A}, number 4, in phase testing`],
      "Written by: agent-7 (qa), 2026-01-04T15:30:00.000Z (5m ago)",
      `Passed over: chk-${A}: its hash is another one`,
      "Goes on with: agents of type qa",
      "Seen of them: none; a runner says nothing before it has work",
      "When nobody comes: it is offered 2 times, for 1m 30s each; then the task is blocked and people are alerted",
      "Loses the task: agent-8, fence 3",
    ]);
    // It is refused for another reason first.
    const refused = said({}, { ...nobody, force: false });
    expect(refused).toContain("\nSeen of them: none");
    expect(refused).not.toContain("When nobody comes");
    const unheard = { agent_type: "qa", is_free: null, agents: [] };
    expect(said({}, { force: true, presence: unheard })).toMatch(
      /^It would go on\. .*\nSeen of them: not known yet/s,
    );
  });

  test("who has just failed, or is at another task, is seen and does not count", () => {
    const agents = [
      idle("agent-7", { state: "stopping", task_id: "auth" }),
      idle("agent-8", { state: "working", task_id: "auth" }),
      idle("agent-9", { state: "working", task_id: "bil\u001bling" }),
      idle("agent-10", { state: "starting" }),
    ];
    const text = said({}, { force: true, presence: { agent_type: "qa", is_free: false, agents } });
    expect(text).toMatch(/^It would wait for an agent\. /);
    expect(text).toContain(
      "\nSeen of them: agent-7 (stopping, 4s ago), agent-8 (at this very task, 4s ago), agent-9 (at task bil\ufffdling, 4s ago), and 1 other\n",
    );
  });

  test("a type that nobody may have any more", () => {
    const offer = { agent_type: "writer", is_known: false, max_attempts: 3, deadline_ms: 60_000 };
    const text = said({ offer }, { force: true });
    expect(text).toMatch(/^It would be blocked again, for no agent may have the type\. /);
    expect(text).toContain("\nUnknown type: FLEET_AGENT_TYPES does not name it any more\n");
  });

  test("nobody loses what nobody owns", () => {
    const text = said({ owner: null });
    expect(text).toContain("\nLoses the task: nobody, for nobody owns it");
    expect(text).toMatch(/^It would go on\./);
  });
});
