// Alerts as operators see them, word for word.

import { expect, test } from "vitest";
import {
  renderAcknowledged,
  renderAlert,
  renderAlertLine,
  renderAlerts,
} from "../../../../services/cli/rendering/operations/alerts.ts";
import type { AlertState } from "../../../../shared/protocol/alert-queries.ts";
import { alertOf } from "../../../../shared/protocol/alerts.ts";
import { view } from "./view.ts";

const time = Date.UTC(2026, 0, 4, 15, 30);
const of = { tenant: "default", task: "auth", nowMs: time };
const failed = alertOf("HANDOFF_FAILED", "critical", {
  ...of,
  occasion: "17",
  data: { handoffId: "h-1", taskId: "auth", state: "escalated", reason: "no_agent" },
});
const dead = alertOf("COMMAND_DEAD", "warning", {
  ...of,
  occasion: "FLEET_QUEUE-3-1768000000000",
  data: { stream: "FLEET_QUEUE", reason: "fen\u001b[2Jced", commandId: null },
});
const acknowledgement = { by: "anna", at: "2026-01-04T15:34:00.000Z", note: "on\u0007 it" };
const open: AlertState = { alert: failed, acknowledgement: null, resolved: false };
const acknowledged: AlertState = { alert: dead, acknowledgement, resolved: false };
const resolved: AlertState = { ...open, resolved: true };

const WHAT = "Task auth is blocked: no agent accepted any of its offers in time.";

test("a list names the cause and the next step", () => {
  const text = { alerts: [open], all: false, next: undefined, fleet: "fleet" };
  expect(renderAlerts(text, view).split("\n")).toEqual([
    "ID               WHEN    SEVERITY  WHAT",
    `default/auth/17  5m ago  critical  ${WHAT}`,
    "",
    "1 alert",
    "Next: `fleet alerts show <id>`. Acknowledge: `fleet alerts ack <id>`.",
  ]);
  expect(renderAlerts({ ...text, alerts: [] }, view)).toBe(
    "No open alerts; `fleet alerts list --all` shows the others.",
  );
  expect(renderAlerts({ ...text, alerts: [], all: true }, view)).toBe("No alerts.");
});

test("a list of all shows resolutions and acknowledgements, without control characters", () => {
  const text = {
    alerts: [open, acknowledged, resolved],
    all: true,
    next: "fleet alerts list --all --cursor x",
    fleet: "fleet",
  };
  expect(renderAlerts(text, view).split("\n")).toEqual([
    "ID                                        WHEN    SEVERITY  RESOLVED  ACKNOWLEDGED BY  WHAT",
    `default/auth/17                           5m ago  critical  no        -                ${WHAT}`,
    "default/auth/FLEET_QUEUE-3-1768000000000  5m ago  warning   no        anna             A queued command of task auth could not be applied: fen�[2Jced.",
    `default/auth/17                           5m ago  critical  yes       -                ${WHAT}`,
    "",
    "3 alerts; more with:",
    "  fleet alerts list --all --cursor x",
    "Next: `fleet alerts show <id>`. Acknowledge: `fleet alerts ack <id>`.",
  ]);
});

test("on a narrow terminal the ids stay whole", () => {
  const lines = renderAlerts(
    { alerts: [open], all: false, next: undefined, fleet: "fleet" },
    { ...view, width: 60 },
  ).split("\n");
  expect(lines[1]).toMatch(/^default\/auth\/17 {2}5m +critical {2}Task auth is .*…$/);
  expect(lines[1]?.length).toBeLessThanOrEqual(60);
});

test("one alert is shown with its data, the next step and its acknowledgement", () => {
  expect(renderAlert({ ...open, state: "completed", newer: null }, "fleet", view).split("\n")).toEqual([
    "Alert: default/auth/17",
    "Severity: critical",
    "Task: auth, now completed",
    "When: 2026-01-04T15:30:00.000Z (5m ago)",
    "Type: HANDOFF_FAILED",
    "  handoffId: h-1",
    "  state: escalated",
    "  reason: no_agent",
    "Acknowledged: no",
    "",
    WHAT,
    "Start an agent of the type that it was offered to, then offer the task again (recovery run, or else handoff).",
    "  fleet handoff show h-1",
    "",
    "Acknowledge it: `fleet alerts ack default/auth/17`",
  ]);
  const text = renderAlert({ ...acknowledged, state: null, newer: null }, "fleet", view);
  expect(text).toContain("\nTask: auth\n");
  expect(text).toContain("Acknowledged: by anna, 2026-01-04T15:34:00.000Z (1m ago): on� it\n");
  expect(text).not.toContain("alerts ack");
});

test("a resolved alert has no next step", () => {
  const text = renderAlert({ ...resolved, state: "active", newer: null }, "fleet", view);
  expect(text.split("\n").slice(-3)).toEqual([
    "",
    WHAT,
    "Resolved: its cause is gone, and there is nothing left to do.",
  ]);
  const both = renderAlert({ ...resolved, acknowledgement, state: "active", newer: null }, "fleet", view);
  expect(both).toContain("\nAcknowledged: by anna, ");
});

test("a resolved alert of a task that is blocked again leads to the newer one", () => {
  const text = renderAlert({ ...resolved, state: "blocked", newer: "default/auth/23" }, "fleet", view);
  expect(text.split("\n").slice(-2)).toEqual([
    WHAT,
    "Resolved, but the task is blocked again: `fleet alerts show default/auth/23` shows the next step.",
  ]);
  // The alert of the current block.
  const current = renderAlert({ ...open, state: "blocked", newer: "default/auth/17" }, "fleet", view);
  expect(current).not.toContain("blocked again");
});

test("an alert that arrives is one line", () => {
  expect(renderAlertLine(dead, "fleet", view)).toBe(
    "2026-01-04T15:30:00.000Z  warning   default/auth/FLEET_QUEUE-3-1768000000000  " +
      "A queued command of task auth could not be applied: fen�[2Jced. fleet queue dead list",
  );
});

test("a second acknowledgement names the first one", () => {
  const alerts = [
    { alert_id: "default/auth/17", acknowledgement, already: false },
    { alert_id: "default/auth/18", acknowledgement, already: true },
  ];
  expect(renderAcknowledged({ alerts }, view).split("\n")).toEqual([
    "Acknowledged: default/auth/17",
    "Already acknowledged: default/auth/18, by anna, 2026-01-04T15:34:00.000Z (1m ago): on� it",
  ]);
});
