// Alerts as people see them, word for word.

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
const known: AlertState = { alert: dead, acknowledgement, resolved: false };
const over: AlertState = { ...open, resolved: true };

const WHAT = "Task auth is blocked: no agent accepted any of its offers in time.";

test("a list says what happened and how to go on", () => {
  const text = { alerts: [open], all: false, next: undefined, fleet: "fleet" };
  expect(renderAlerts(text, view).split("\n")).toEqual([
    "ID               WHEN    SEVERITY  WHAT",
    `default/auth/17  5m ago  critical  ${WHAT}`,
    "",
    "Total: 1 alert",
    "What to do: `fleet alerts show <id>`. When you know of it: `fleet alerts ack <id>`.",
  ]);
  expect(renderAlerts({ ...text, alerts: [] }, view)).toBe(
    "No alerts are open; `fleet alerts list --all` shows the others.",
  );
  expect(renderAlerts({ ...text, alerts: [], all: true }, view)).toBe("No alerts.");
});

test("a list of all says whose cause is gone and who knows, and obeys no control characters", () => {
  const text = {
    alerts: [open, known, over],
    all: true,
    next: "fleet alerts list --all --cursor x",
    fleet: "fleet",
  };
  expect(renderAlerts(text, view).split("\n")).toEqual([
    "ID                                        WHEN    SEVERITY  CAUSE  KNOWN TO  WHAT",
    `default/auth/17                           5m ago  critical  -      nobody    ${WHAT}`,
    "default/auth/FLEET_QUEUE-3-1768000000000  5m ago  warning   -      anna      A queued command of task auth could not be applied: fen�[2Jced.",
    `default/auth/17                           5m ago  critical  gone   nobody    ${WHAT}`,
    "",
    "3 alerts; more with:",
    "  fleet alerts list --all --cursor x",
    "What to do: `fleet alerts show <id>`. When you know of it: `fleet alerts ack <id>`.",
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

test("one alert is shown with its facts, what to do, and who knows of it", () => {
  expect(renderAlert({ ...open, state: "completed", newer: null }, "fleet", view).split("\n")).toEqual([
    "Alert: default/auth/17",
    "Severity: critical",
    "Task: auth, completed now",
    "When: 2026-01-04T15:30:00.000Z (5m ago)",
    "Type: HANDOFF_FAILED",
    "  handoffId: h-1",
    "  state: escalated",
    "  reason: no_agent",
    "Known to: nobody",
    "",
    WHAT,
    "Start an agent of the type that it was offered to, then offer the task again (recovery run, or else handoff).",
    "  fleet handoffs show h-1",
    "",
    "When you know of it: `fleet alerts ack default/auth/17`",
  ]);
  const told = renderAlert({ ...known, state: null, newer: null }, "fleet", view);
  expect(told).toContain("\nTask: auth\n");
  expect(told).toContain("Known to: anna, since 2026-01-04T15:34:00.000Z (1m ago): on� it\n");
  expect(told).not.toContain("alerts ack");
});

test("of one whose cause is gone nobody is asked anything", () => {
  const told = renderAlert({ ...over, state: "active", newer: null }, "fleet", view);
  expect(told.split("\n").slice(-3)).toEqual([
    "",
    WHAT,
    "Its cause is gone: nobody has to do anything about it any more.",
  ]);
  const acknowledged = renderAlert({ ...over, acknowledgement, state: "active", newer: null }, "fleet", view);
  expect(acknowledged).toContain("\nKnown to: anna, since ");
});

test("of a task that is blocked anew the newer alert is the one to look at", () => {
  const told = renderAlert({ ...over, state: "blocked", newer: "default/auth/23" }, "fleet", view);
  expect(told.split("\n").slice(-2)).toEqual([
    WHAT,
    "The task was blocked anew since: `fleet alerts show default/auth/23` says what to do.",
  ]);
  // It is this one.
  const still = renderAlert({ ...open, state: "blocked", newer: "default/auth/17" }, "fleet", view);
  expect(still).not.toContain("blocked anew");
});

test("an alert that comes is one line", () => {
  expect(renderAlertLine(dead, "fleet", view)).toBe(
    "2026-01-04T15:30:00.000Z  warning   default/auth/FLEET_QUEUE-3-1768000000000  " +
      "A queued command of task auth could not be applied: fen�[2Jced. fleet queue dead list",
  );
});

test("who was first is said to whoever comes second", () => {
  const alerts = [
    { alert_id: "default/auth/17", acknowledgement, already: false },
    { alert_id: "default/auth/18", acknowledgement, already: true },
  ];
  expect(renderAcknowledged({ alerts }, view).split("\n")).toEqual([
    "Acknowledged: default/auth/17",
    "Known already: default/auth/18, to anna, since 2026-01-04T15:34:00.000Z (1m ago): on� it",
  ]);
});
