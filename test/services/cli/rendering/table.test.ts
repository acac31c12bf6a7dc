// Tables on a narrow terminal: no line is wider than it, and each id is whole or in the form that commands accept.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { renderCheckpointTable } from "../../../../services/cli/rendering/checkpoints/checkpoint-table.ts";
import { renderHistory } from "../../../../services/cli/rendering/checkpoints/history.ts";
import { renderAudit } from "../../../../services/cli/rendering/operations/audit.ts";
import { briefIds, elidedColumn } from "../../../../services/cli/rendering/terminal/elision.ts";
import { tableLines } from "../../../../services/cli/rendering/terminal/table.ts";
import { createView, type View } from "../../../../services/cli/rendering/terminal/view.ts";
import {
  type Checkpoint,
  checkpointSchema,
  FINAL_STATUSES,
  PHASES,
  TRIGGER_REASONS,
} from "../../../../shared/protocol/checkpoint.ts";
import { NOW, view } from "./view.ts";

const ID = "01a20034-080b-7e0f-afff-92b62777977f";

function terminal(columns: number | undefined): View {
  const output = { write: () => {}, isTTY: true, columns };
  return createView(output, { color: false, env: {}, now: NOW });
}

const token = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/),
  fc.stringMatching(/^[A-Za-z0-9_-]{30,64}$/),
);

const checkpoints: fc.Arbitrary<Checkpoint> = fc
  .record({
    agent: token,
    task: token,
    phase: fc.constantFrom(...PHASES),
    reason: fc.constantFrom(...TRIGGER_REASONS),
    final: fc.option(fc.constantFrom(...FINAL_STATUSES), { nil: undefined }),
    seq: fc.integer({ min: 1, max: 9_999 }),
    age: fc.integer({ min: 0, max: 999 * 86_400_000 }),
    percent: fc.option(fc.integer({ min: 0, max: 100 }), { nil: undefined }),
  })
  .map(({ agent, task, phase, reason, final, seq, age, percent }) =>
    checkpointSchema.parse({
      schema_version: "1.1",
      metadata: {
        checkpoint_id: ID,
        tenant: "default",
        task_id: task,
        agent_id: agent,
        agent_type: "qa",
        timestamp: new Date(NOW - age).toISOString(),
        committed_at: new Date(NOW - age).toISOString(),
        parent_ids: [ID],
        trigger: { reason },
        status: final === undefined ? "draft" : "finalized",
        ...(final !== undefined && { final_status: final }),
        version: 1,
        seq,
      },
      execution_state: { phase, ...(percent !== undefined && { progress_percent: percent }) },
      compliance: { event_log_ref: "a", retention_policy: "standard", hash: "0".repeat(64) },
    }),
  );

const page = fc.array(checkpoints, { minLength: 1, maxLength: 4 });

/** Checks the lines of a table without its title, which may contain a task id of any length. */
function expectToFit(text: string, rows: number): void {
  const lines = text.split("\n").slice(1);
  for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80);
  const isNamed = (line: string) => line.includes(`chk-${ID}`) || line.includes("chk-01a20034…77977f");
  expect(lines.filter(isNamed).length).toBeGreaterThanOrEqual(rows);
}

describe("at 80 columns nothing wraps", () => {
  test("pages", () => {
    fc.assert(
      fc.property(page, fc.boolean(), (checkpoints, withTask) => {
        const text = renderCheckpointTable(
          { title: "T", checkpoints, signatures: [], next: undefined, withTask },
          terminal(80),
        );
        expectToFit(text, checkpoints.length);
      }),
      { numRuns: 50 },
    );
  });

  test("histories", () => {
    fc.assert(
      fc.property(page, (checkpoints) => {
        const text = renderHistory(
          { task: "t", order: "newest", removed: [], signatures: [], checkpoints, next: undefined },
          terminal(80),
        );
        expectToFit(text, checkpoints.length);
      }),
      { numRuns: 50 },
    );
  });

  test("audit trails", () => {
    fc.assert(
      fc.property(token, fc.integer({ min: 1, max: 9_999 }), (agent, seq) => {
        const at = new Date(NOW - 300_000).toISOString();
        const entry = {
          op: "create",
          at,
          actor: { id: agent },
          checkpoint_id: ID,
          version: 1,
          state_from: null,
          state_to: "active",
        };
        const entries = [{ seq, entry: JSON.stringify(entry), hash: "a".repeat(64) }];
        const text = renderAudit({ task: "t", entries, signatures: [], next: undefined }, terminal(80));
        expectToFit(text, 1);
        expect(text).toContain("5m ago");
        const failed = {
          ...entry,
          op: "fail",
          class: "unrecoverable",
          signal: "handoff_rejected",
          owner_from: agent,
        };
        const mixed = [...entries, { seq, entry: JSON.stringify(failed), hash: "a".repeat(64) }];
        const both = renderAudit(
          { task: "t", entries: mixed, signatures: [], next: undefined },
          terminal(80),
        );
        expectToFit(both, 0);
        expect(both).toContain("unrecoverab");
      }),
      { numRuns: 20 },
    );
  });
});

describe("a table that is too wide", () => {
  const rows = [["an-id", "5m ago", "a long note", "extra"]];
  const fit = [undefined, { brief: () => "5m" }, { least: 6 }, { leaves: 1 }];
  const shown = (columns: number | undefined) => tableLines(rows, { view: terminal(columns), fit })[0];

  test.each([
    [100, "an-id  5m ago  a long note  extra"],
    [33, "an-id  5m ago  a long note  extra"],
    [32, "an-id  5m  a long note  extra"],
    [29, "an-id  5m  a long note  extra"],
    [28, "an-id  5m  a long note"],
    [18, "an-id  5m  a long…"],
    [5, "an-id  5m  a lon…"],
  ])("with %d columns", (columns, text) => expect(shown(columns)).toBe(text));

  test.each([
    [70, "a-task-of-the-team  an-owner  chk-01a20034-080b-7e0f-afff-92b62777977f"],
    [69, "a-task-of-the-team  an-owner  chk-01a20034…77977f"],
    [49, "a-task-of-the-team  an-owner  chk-01a20034…77977f"],
    [46, "a-task-…he-team  an-owner  chk-01a20034…77977f"],
    [31, "a-…m  an…r  chk-01a20034…77977f"],
  ])("with %d columns shortens ids before names, and the longest name first", (columns, text) => {
    const names = [undefined, undefined, { id: briefIds }].map(
      (fit) => fit ?? ({ least: 4, names: true } as const),
    );
    const cells = [["a-task-of-the-team", "an-owner", `chk-${ID}`]];
    expect(tableLines(cells, { view: terminal(columns), fit: names })[0]).toBe(text);
  });

  test("a terminal without a known width has 80 columns, and a pipe has no limit", () => {
    expect([terminal(undefined).width, terminal(0).width, view.width]).toEqual([80, 80, undefined]);
  });

  test("wide letters count as two columns, and colours as none", () => {
    const bold = "\u001b[1mbold\u001b[22m";
    expect(tableLines([[bold, "界界界界"]], { view: terminal(11), fit: [undefined, { least: 3 }] })[0]).toBe(
      `${bold}  界界…`,
    );
  });

  test("a cut cell ends its colours", () => {
    const red = "\u001b[31mred and long\u001b[39m";
    expect(tableLines([[red, "end"]], { view: terminal(9), fit: [{ least: 3 }] })[0]).toBe(
      "\u001b[31mred…\u001b[39m  end",
    );
  });

  test("numbers are aligned to the right", () => {
    expect(
      tableLines(
        [
          ["1", "a"],
          ["1,000", "b"],
        ],
        { right: [0] },
      ),
    ).toEqual(["    1  a", "1,000  b"]);
  });
});

test("cut names keep the ends that distinguish them", () => {
  const shown = (...names: string[]) => elidedColumn(names, 9);
  expect(shown("implementer-1", "implementer-2")).toEqual(["impl…er-1", "impl…er-2"]);
  expect(shown("a-implementer", "b-implementer")).toEqual(["a-im…nter", "b-im…nter"]);
  expect(shown("implementer-17-main", "implementer-18-main", "short")).toEqual([
    "im…7-main",
    "im…8-main",
    "short",
  ]);
  expect(shown("task-17-implementer", "task-18-implementer")).toEqual(["task-17…r", "task-18…r"]);
  // They differ where neither end reaches.
  expect(shown("implement-1-the-feature", "implement-2-the-feature")).toEqual(["impl…ture", "impl…ture"]);
});
