// Checkpoints, audit trails, status and events as operators see them, word for word.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { renderCheckpoint } from "../../../../services/cli/rendering/checkpoints/checkpoint.ts";
import { renderCheckpointTable } from "../../../../services/cli/rendering/checkpoints/checkpoint-table.ts";
import { renderHistory } from "../../../../services/cli/rendering/checkpoints/history.ts";
import { renderSigningKeys } from "../../../../services/cli/rendering/keys/signing-keys.ts";
import { renderAudit, renderReport } from "../../../../services/cli/rendering/operations/audit.ts";
import { renderEvent } from "../../../../services/cli/rendering/operations/event.ts";
import { renderIndex, renderStatus } from "../../../../services/cli/rendering/operations/status.ts";
import { progressLine } from "../../../../services/cli/rendering/terminal/progress.ts";
import { tableLines } from "../../../../services/cli/rendering/terminal/table.ts";
import {
  count,
  inReadingOrder,
  plain,
  progressText,
  shownId,
  terminalJson,
} from "../../../../services/cli/rendering/terminal/text.ts";
import { ago, span } from "../../../../services/cli/rendering/terminal/time.ts";
import { type Checkpoint, checkpointSchema } from "../../../../shared/protocol/checkpoint.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { NOW, view } from "./view.ts";

const A = "01a20034-080b-7e0f-afff-92b62777977f";
const B = "01a20034-0a0b-73f1-929f-f95b19de3896";

function checkpoint(metadata: object = {}, rest: object = {}): Checkpoint {
  return checkpointSchema.parse({
    schema_version: "1.1",
    metadata: {
      checkpoint_id: A,
      tenant: "default",
      task_id: "auth",
      agent_id: "agent-1",
      agent_type: "qa",
      timestamp: "2026-01-04T15:30:00.000Z",
      committed_at: "2026-01-04T15:30:00.000Z",
      parent_ids: [],
      trigger: { reason: "progress", details: "Reached 75% milestone" },
      status: "draft",
      version: 1,
      seq: 1,
      ...metadata,
    },
    execution_state: { phase: "testing", progress_percent: 75 },
    compliance: { event_log_ref: "audit/default/auth#1", retention_policy: "standard", hash: "0".repeat(64) },
    ...rest,
  });
}

const second = checkpoint({
  checkpoint_id: B,
  seq: 2,
  parent_ids: [A],
  committed_at: "2026-01-04T15:34:30.000Z",
});

describe("text and times", () => {
  test.each([
    [0, "0ms"],
    [999, "999ms"],
    [1_000, "1s"],
    [61_000, "1m 1s"],
    [11_520_000, "3h 12m"],
    [172_800_000, "2d"],
  ])("%d ms is %s", (ms, text) => expect(span(ms)).toBe(text));

  test.each([
    ["2026-01-04T15:35:00.000Z", "just now"],
    ["2026-01-04T15:35:03.000Z", "just now"],
    ["2026-01-04T15:34:55.000Z", "5s ago"],
    ["2026-01-04T15:30:00.000Z", "5m ago"],
    ["2026-01-04T12:22:00.000Z", "3h ago"],
    ["2025-12-28T15:35:00.000Z", "7d ago"],
    ["2026-01-04T15:45:00.000Z", "in 10m"],
    ["soon", "-"],
  ])("%s is %s", (time, text) => expect(ago(time, NOW)).toBe(text));

  test("large numbers are readable", () =>
    expect([1, 1_234, 1_234_567].map(count)).toEqual(["1", "1,234", "1,234,567"]));

  test("ids are never shortened, nor prefixed twice", () => {
    expect(shownId(A)).toBe(`chk-${A}`);
    expect(shownId(`chk-${A}`)).toBe(`chk-${A}`);
  });

  test("control characters in an agent's text do not reach the terminal", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: they must not be there.
        expect(plain(text)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: they must not be there.
        expect(plain(text, { lines: true })).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
      }),
    );
    expect(plain("a\r\nb\tc\u001b[2J")).toBe("a b c\ufffd[2J");
  });

  test("no character that reorders text reaches a terminal, and JSON keeps its values", () => {
    const hostile =
      "pay \u202eecila\u202c \u2066x\u2069 \u061c\u200e\u200f \u0085\u009b2J family \u{1f468}\u200d\u{1f469}";
    expect(inReadingOrder(hostile)).not.toMatch(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/);
    expect(inReadingOrder("\u{1f468}\u200d\u{1f469}")).toBe("\u{1f468}\u200d\u{1f469}");
    const json = terminalJson({ [hostile]: hostile });
    expect(json).not.toMatch(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u007f-\u009f]/);
    expect(JSON.parse(json)).toEqual({ [hostile]: hostile });
  });
});

describe("tables", () => {
  test("columns are aligned, also with wide letters, and no line has trailing spaces", () => {
    const lines = tableLines(
      [
        ["界界", "x"],
        ["a", "yy"],
        ["", ""],
      ],
      { heads: ["N", "VALUE"] },
    );
    expect(lines).toEqual(["N     VALUE", "界界  x", "a     yy", ""]);
  });
  test("no rows are no lines", () => expect(tableLines([])).toEqual([]));
});

describe("pages", () => {
  type Page = Omit<Parameters<typeof renderCheckpointTable>[0], "title" | "signatures">;
  const pageText = (page: Page) => renderCheckpointTable({ title: "T", signatures: [], ...page }, view);
  const empty = { checkpoints: [], withTask: false };

  test("a page ends with the command for the next one", () => {
    const checkpoints = [second, checkpoint()];
    expect(pageText({ checkpoints, next: "fleet x --cursor y", withTask: true }).split("\n")).toEqual([
      "T",
      "",
      "ID                                        WHEN     TRIGGER   PROGRESS  PHASE    STATUS  AGENT    TASK",
      `chk-${B}  30s ago  progress  75%       testing  draft   agent-1  auth`,
      `chk-${A}  5m ago   progress  75%       testing  draft   agent-1  auth`,
      "",
      "2 checkpoints; more with:",
      "  fleet x --cursor y",
    ]);
  });

  test("an empty page reads None, or its own text, unless there is a next page", () => {
    expect(pageText({ ...empty, next: undefined })).toBe("T\n\nNone.");
    const none = "No checkpoint matches.";
    expect(pageText({ ...empty, none, next: undefined })).toBe(none);
    for (const page of [empty, { ...empty, none }])
      expect(pageText({ ...page, next: "fleet on" })).toContain("0 checkpoints; more with:\n  fleet on");
  });

  test.each([
    [{ completed_items: ["a"], pending_items: ["b"] }, "1/2"],
    [{ completed_items: ["a", "b"], blocked_items: ["c"] }, "2/3"],
    [{ pending_items: ["a"] }, "0/1"],
    [{}, "-"],
    [{ completed_items: ["a"], progress_percent: 40 }, "40%"],
  ])("progress of %j is %s", (state, text) => {
    const one = checkpoint({}, { execution_state: { phase: "testing", ...state } });
    expect(progressText(one.execution_state)).toBe(text);
  });

  test("a history draws the chain", () => {
    const text = renderHistory(
      {
        task: "auth",
        order: "newest",
        removed: [],
        signatures: [],
        checkpoints: [second, checkpoint()],
        next: undefined,
      },
      view,
    );
    expect(text.split("\n")).toEqual([
      "History of task auth, newest first",
      "",
      `○ #2  chk-${B}  30s ago  progress  75%  testing  draft  agent-1`,
      `│   from chk-${A}`,
      `○ #1  chk-${A}  5m ago   progress  75%  testing  draft  agent-1`,
      "    no parent",
      "",
      "2 checkpoints",
    ]);
  });
});

describe("one checkpoint", () => {
  test("shows only the sections that it has", () => {
    expect(renderCheckpoint(checkpoint(), view).split("\n")).toEqual([
      `Checkpoint: chk-${A}`,
      "Task: auth",
      "Agent: agent-1 (qa)",
      "Created: 2026-01-04T15:30:00.000Z (5m ago)",
      "Trigger: progress (Reached 75% milestone)",
      "Status: draft, version 1, checkpoint 1 of the task, iteration 1",
      "Parents: none",
      "Phase: testing",
      "Progress: 75%",
      "",
      "Retention: standard, kept until 2026-04-04 at least",
      "Audit: audit/default/auth#1",
      `Hash: ${"0".repeat(64)}`,
      "Signature: unsigned",
    ]);
  });

  test("shows work, decisions and a mission", () => {
    const full = checkpoint(
      { labels: { team: "a" } },
      {
        execution_state: {
          phase: "testing",
          completed_items: [{ title: "Login", files_modified: ["src/auth.ts"] }],
          blocked_items: [{ title: "Deploy", blocker: "no key" }],
          resume_pointer: { next_action: "Run the tests" },
        },
        context_summary: { key_decisions: [{ decision: "JWT", rationale: "stateless" }] },
        recovery: { continuation_prompt: "one\ntwo\u001b[2J" },
        fleet: {
          mission_id: "msn-1",
          sorties: [{ id: "srt-1", status: "pending", files: ["a.ts", "b.ts"] }],
          active_locks: [{ id: "l", file: "src/a.ts", held_by: "S-1", acquired_at: "2026-01-04T15:30:00Z" }],
          pending_messages: [{ id: "m", from: "Dispatch", to: ["S-2"], subject: "Review" }],
          recovery_context: { last_action: "editing", blockers: [] },
        },
      },
    );
    const lines = renderCheckpoint(full, view).split("\n");
    for (const line of [
      "Labels: team=a",
      "Completed (1):",
      "  - Login  [src/auth.ts]",
      "  - Deploy  blocked by: no key",
      "Next action: Run the tests",
      "  - JWT (stateless)",
      "Continuation prompt:",
      "  one",
      "  two\ufffd[2J",
      "Mission: msn-1",
      "  srt-1  pending  -  a.ts, b.ts",
      "  src/a.ts  S-1  acquired 5m ago",
      "  From: Dispatch  To: S-2  Subject: Review",
      "  Last Action: editing",
      "  Blockers: None",
    ]) {
      expect(lines).toContain(line);
    }
    expect(lines).not.toContain("Pending (0):");
  });
});

describe("the audit trail", () => {
  const entry = {
    op: "create",
    at: "T",
    actor: { id: "a", type: "agent" },
    checkpoint_id: A,
    version: 1,
    state_from: null,
    state_to: "active",
  };

  test("shows every entry, even one that is not JSON", () => {
    const entries = [
      { seq: 1, entry: JSON.stringify(entry), hash: "a".repeat(64) },
      { seq: 2, entry: "{broken", hash: "b".repeat(64) },
    ];
    expect(renderAudit({ task: "auth", entries, signatures: [], next: undefined }, view).split("\n")).toEqual(
      [
        "Audit trail of task auth",
        "",
        "SEQ  AT  OP      ACTOR  CHECKPOINT                                VERSION  STATE         HASH",
        `  1  T   create  a      chk-${A}  1        new > active  aaaaaaaaaaaa`,
        "  2  -   -       -      -                                         -        -             bbbbbbbbbbbb",
        "",
        "2 entries",
      ],
    );
  });

  test("shows the cause of a failure and the number of an attempt", () => {
    const failed = {
      ...entry,
      op: "fail",
      class: "out_of_memory",
      signal: "exit_report",
      owner_from: "agent_7",
    };
    const attempt = { ...entry, op: "recover", attempt: 2, rung: "latest" };
    const blocked = { ...entry, op: "block", reason: "attempts_spent" };
    const entries = [failed, attempt, blocked].map((one, i) => ({
      ...{ seq: i + 1, entry: JSON.stringify(one), hash: "a".repeat(64) },
    }));
    const lines = renderAudit({ task: "auth", entries, signatures: [], next: undefined }, view)
      .split("\n")
      .slice(3, 6);
    expect(lines.map((line) => line.slice(line.indexOf("aaaaaaaaaaaa") + 14))).toEqual([
      "out of memory of agent_7, exit report",
      "attempt 2",
      "attempts spent",
    ]);
  });

  test("reports a valid and a broken chain", () => {
    const signatures = { signed: 2, unsigned: 0, problems: [] };
    const good = { ok: true, entries: 2, head: "h", problems: [], signatures };
    expect(renderReport("task auth", good, view)).toBe(
      "The audit trail of task auth is valid.\n2 entries, 2 signed, head h",
    );
    expect(renderReport("task auth", { ...good, signatures: null }, view)).toContain(
      "signatures were not checked: the reader is of an older version",
    );
    const problems = Array.from({ length: 25 }, (_, i) => ({ seq: i + 1, problem: "broken_link" }));
    const text = renderReport("task auth", { ok: false, entries: 25, head: "h", problems, signatures }, view);
    expect(text).toContain("is NOT valid");
    expect(text).toContain("25 entries, 25 problems:");
    expect(text).toContain("… and 5 more");
  });
});

test("a signing key is listed with the time of its registration", () => {
  const key = {
    ...{ key_id: "ab".repeat(32), public_key: "", purpose: "commits", owner: "writer" },
    algorithm: "ed25519",
    not_before: new Date(view.now - 3_600_000 - LIMITS.clock_skew_ms_max).toISOString(),
    ...{
      not_after: null,
      revoked_at: null,
      revoked_reason: null,
      replaces: null,
      rotation_requested_at: null,
    },
  } as const;
  expect(renderSigningKeys([key], view)).toMatch(/abababababababab +writer +active +1h ago +-/);
  const ahead = { ...key, not_before: new Date(view.now + 1).toISOString() };
  expect(renderSigningKeys([ahead], view)).toMatch(/abababababababab +writer +not begun +in 30s +-/);
});

test("status on one screen", () => {
  const index = { state: "ready" as const, indexed_through: "", behind: 2, indexed: 10, total: 10 };
  const status = {
    version: "0.1.0",
    store: { engine: "lmdb", ok: true, detail: "fine" },
    bus: { ok: false, detail: "gone", server_version: "2.15.1" },
    index,
    outbox: { depth: 3, oldest_ms: 1_500 },
    counts: { tasks: 1, checkpoints: 1_200, events: 0 },
    uptime_ms: 61_000,
  };
  const place = { url: "nats://h:1", fleet: "fleet" };
  expect(renderStatus(status, place, view).split("\n")).toEqual([
    "Fleet 0.1.0 at nats://h:1, up for 1m 1s",
    "",
    "store   ok     lmdb  fine",
    "bus     down   nats-server 2.15.1  gone",
    "index   ready  10 checkpoints, 2 commits behind",
    "outbox  ok     3 events to publish, the oldest for 1s",
    "",
    "1 task, 1,200 checkpoints, 0 events",
  ]);
  const alerts = (open: number, more: boolean) =>
    renderStatus({ ...status, alerts: { open, more } }, place, view).split("\n")[6];
  expect(alerts(0, false)).toBe("alerts  ok     none open");
  expect(alerts(2, false)).toBe("alerts  open   2: fleet alerts list");
  expect(alerts(100, true)).toBe("alerts  open   100 or more: fleet alerts list");
  const watchdog = (by: string | null) =>
    renderStatus({ ...status, watchdog: { by } }, place, view).split("\n")[6];
  expect(watchdog("vm-1")).toBe("watchdog  ok     vm-1");
  expect(watchdog(null)).toBe("watchdog  none   failed agents are not noticed until one runs");
  expect(renderIndex({ ...index, state: "rebuilding", indexed: 4 }, view)).toBe(
    "Search index: rebuilding, 4 of 10 checkpoints",
  );
});

test("a progress bar is full at the end, also for an empty or a grown total", () => {
  expect(progressLine({ what: "W", done: 50, total: 200 }, view)).toContain(
    `${"█".repeat(6)}${"░".repeat(18)} 25% (50 of 200)`,
  );
  expect(progressLine({ what: "W", done: 0, total: 0 }, view)).toContain("100%");
  expect(progressLine({ what: "W", done: 9, total: 3 }, view)).toContain("100%");
});

test("an event is one line", () => {
  const event = {
    time: "T",
    type: "CHECKPOINT_UPDATED",
    subject: "auth",
    data: { checkpointId: A, fields: ["a", "b"], reason: 'it said "no", x=1', taskId: "auth" },
  };
  expect(renderEvent(event, view)).toBe(
    `T  CHECKPOINT_UPDATED    auth  checkpointId=${A} fields=a,b reason="it said \\"no\\", x=1"`,
  );
});
