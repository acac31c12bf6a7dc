// The dry run of a recovery as operators see it, word for word.

import { describe, expect, test } from "vitest";
import type { Presence } from "../../../../services/cli/commands/recovery/agent-presence.ts";
import { dryRunOf, renderDryRun } from "../../../../services/cli/rendering/recovery/recovery-preview.ts";
import type { RecoveryPreview } from "../../../../shared/protocol/recovery-queries.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import { A, idle, task } from "./recovery-fixtures.ts";
import { view } from "./view.ts";

describe("a dry run", () => {
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
    refused: null,
  };
  const free = { agent_type: "qa", is_free: true, agents: [idle("agent-9")] };
  const dryRun = (
    changes: Partial<RecoveryPreview>,
    { head = task, presence = free }: { head?: Task; presence?: Presence } = {},
  ) => renderDryRun(dryRunOf(head, { ...point, ...changes }, presence), view);

  test("names the recovery point, the checkpoints that are passed over and the owner", () => {
    const open = { ...task, handoff_id: A };
    expect(dryRun({}, { head: open })).toBe(
      [
        "The task would continue. Nothing was changed.",
        "Task: auth, active",
        `From: chk-${A}, checkpoint 4 of the task, in phase testing`,
        "Written by: agent-7 (qa), 2026-01-04T15:30:00.000Z (5m ago)",
        `Passed over: chk-${A}: its hash is another one`,
        "Offered to: agents of type qa",
        "Available agents: agent-9 (free, 4s ago)",
        "Owner: agent-8, fence 3, would lose the task",
        `Cancels: handoff ${A}`,
      ].join("\n"),
    );
  });

  test.each([
    [
      "the owner is alive",
      { code: "CONFLICT", message: "alive", details: { alive_until: "2026-01-04T15:35:05.000Z" } },
      "until 2026-01-04T15:35:05.000Z; --force takes the task from it",
    ],
    [
      "the task has ended",
      { code: "CONFLICT", message: "the task has ended", details: { state: "failed" } },
      "the task has ended (failed)",
    ],
    ["the chain is broken", { code: "CORRUPT", message: "x is corrupt" }, "x is corrupt"],
  ] as const)("shows a refusal: %s", (_why, refused, words) => {
    expect(dryRunOf(task, { ...point, refused }, null).refused).toMatchObject({ code: refused.code });
    expect(dryRun({ refused })).toMatch(/^The recovery would be refused: /);
    expect(dryRun({ refused })).toContain(words);
    expect(`${dryRun({ refused })}\n`).toContain("\nOwner: agent-8, fence 3\n");
  });

  test("shows the available agents, and the effect if there is none", () => {
    const none = { presence: { agent_type: "qa", is_free: false, agents: [] } };
    expect(dryRun({}, none).split("\n")).toEqual([
      "The task would wait for an agent. Nothing was changed.",
      ...["Task: auth, active", `From: chk-${A}, checkpoint 4 of the task, in phase testing`],
      "Written by: agent-7 (qa), 2026-01-04T15:30:00.000Z (5m ago)",
      `Passed over: chk-${A}: its hash is another one`,
      "Offered to: agents of type qa",
      "Available agents: none; a runner is not listed before it has work",
      "If none accepts: after 2 offers of 1m 30s each, the task is blocked and operators are alerted",
      "Owner: agent-8, fence 3, would lose the task",
    ]);
    // The refusal comes first.
    const refused = dryRun({ refused: { code: "CONFLICT", message: "refused" } }, none);
    expect(refused).toContain("\nAvailable agents: none");
    expect(refused).not.toContain("If none accepts");
    const unknown = { agent_type: "qa", is_free: null, agents: [] };
    expect(dryRun({}, { presence: unknown })).toMatch(
      /^The task would continue\. .*\nAvailable agents: unknown, /s,
    );
  });

  test("lists an agent that failed or works on another task, and does not count it as free", () => {
    const agents = [
      idle("agent-7", { state: "stopping", task_id: "auth" }),
      idle("agent-8", { state: "working", task_id: "auth" }),
      idle("agent-9", { state: "working", task_id: "bil\u001bling" }),
      idle("agent-10", { state: "starting" }),
    ];
    const text = dryRun({}, { presence: { agent_type: "qa", is_free: false, agents } });
    expect(text).toMatch(/^The task would wait for an agent\. /);
    expect(text).toContain(
      "\nAvailable agents: agent-7 (stopping, 4s ago), agent-8 (on this task, 4s ago), agent-9 (on task bil\ufffdling, 4s ago), and 1 other\n",
    );
  });

  test("reports an agent type that no longer exists", () => {
    const offer = { agent_type: "writer", is_known: false, max_attempts: 3, deadline_ms: 60_000 };
    const text = dryRun({ offer }, {});
    expect(text).toMatch(/^The task would be blocked, because the agent type does not exist\. /);
    expect(text).toContain("\nUnknown type: FLEET_AGENT_TYPES no longer contains it\n");
  });

  test("of an unowned task names no owner", () => {
    const text = dryRun({ owner: null });
    expect(text).toMatch(/^The task would continue\./);
    expect(text).toMatch(/\nOwner: none$/);
  });
});
