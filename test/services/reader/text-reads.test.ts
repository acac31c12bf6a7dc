/** Which answers have a text that makes them an entry of the access log, where a real fleet seldom has both kinds at once. */
import { expect, test } from "vitest";
import { shownContent } from "../../../services/reader/access-log/content-reads.ts";
import type { AnsweredOp } from "../../../shared/protocol/operations.ts";

const shown = (op: AnsweredOp, result: object, params: object = {}) =>
  shownContent(op, params as never, result as never);

test("of many tasks only those with a text are named", () => {
  const task = (task_id: string, texts: object = {}) => ({
    task_id,
    blocked: null,
    recovery: null,
    ...texts,
  });
  const tasks = [
    task("plain"),
    task("blocked", { blocked: { details: "the model refused" } }),
    task("failed", { recovery: { failure: { details: "out of memory" }, choice: null } }),
    task("coded", { blocked: { details: null }, recovery: { failure: { details: null }, choice: null } }),
    task("asked", { recovery: { failure: null, choice: { reason: "try again" } } }),
  ];
  expect(shown("tasks", { tasks })).toEqual({ task_ids: ["blocked", "failed", "asked"], items: 3 });
  expect(shown("recoveries", { tasks: tasks.slice(3, 4) })).toBeNull();
});

test("signatures with a reason, and dead letters that repeat a refused value", () => {
  const params = { task_id: "signed" };
  expect(shown("signatures", { signatures: [{ meaning: "review" }] }, params)).toBeNull();
  expect(shown("signatures", { signatures: [{ reason: "as agreed" }, {}] }, params)).toEqual({
    task_id: "signed",
    items: 1,
  });
  const letter = (task_id: string | null, fields?: object[]) => ({ task_id, error: { fields } });
  expect(shown("dead_list", { letters: [letter("a"), letter("b", [{ path: "x" }])] })).toBeNull();
  const letters = [letter("a", [{ path: "x", got: "a name" }]), letter(null, [{ got: "a name" }])];
  expect(shown("dead_list", { letters })).toEqual({ task_ids: ["a", "unknown"], items: 2 });
});

test("alerts with details or a note, and events whose reason is no code", () => {
  const alert = (subject: string, data: object, note: string | null = null) => ({
    ...{ alert: { subject, data }, acknowledgement: note === null ? null : { note } },
  });
  const alerts = [alert("a", { details: "d" }), alert("b", { reason: "held" }), alert("c", {}, "seen")];
  expect(shown("alerts", { alerts })).toEqual({ task_ids: ["a", "c"], items: 2 });
  const event = (subject: string, type: string, reason: string | null) => ({
    event: { subject, type, data: { reason } },
  });
  const events = [
    event("a", "TASK_BLOCKED", "recovery_exhausted"),
    event("b", "AGENT_HANDOFF", null),
    event("c", "AGENT_HANDOFF", "the context is full"),
    event("c", "RECOVERY_INITIATED", "out of memory"),
  ];
  expect(shown("events", { events })).toEqual({ task_id: "c", items: 2 });
});
