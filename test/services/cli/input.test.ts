// Options and documents, before the fleet is asked.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkpointDocument, missingOptions } from "../../../services/cli/input/checkpoint/checkpoint.ts";
import { collectLabel } from "../../../services/cli/input/checkpoint/label.ts";
import { parseObject } from "../../../services/cli/input/document.ts";
import { bareId, collectIds } from "../../../services/cli/input/id.ts";
import { parseMoment } from "../../../services/cli/input/moment.ts";
import { percent, wholeNumber } from "../../../services/cli/input/number.ts";
import { checkpointInputSchema } from "../../../shared/protocol/checkpoint.ts";
import { normalizeCheckpointId } from "../../../shared/protocol/ids.ts";

const NOW = Date.parse("2026-03-10T12:00:00.000Z");

describe("a point in time", () => {
  test.each([
    ["now", "2026-03-10T12:00:00.000Z"],
    ["90s", "2026-03-10T11:58:30.000Z"],
    ["2h", "2026-03-10T10:00:00.000Z"],
    ["2h ago", "2026-03-10T10:00:00.000Z"],
    ["-7d", "2026-03-03T12:00:00.000Z"],
    ["2026-01-04", "2026-01-04T00:00:00.000Z"],
    ["2026-01-04T15:30", "2026-01-04T15:30:00.000Z"],
    ["2026-01-04 15:30:01", "2026-01-04T15:30:01.000Z"],
    ["2026-01-04T15:30:00Z", "2026-01-04T15:30:00.000Z"],
    ["2026-01-04T15:30:00.25z", "2026-01-04T15:30:00.250Z"],
    ["2026-01-04T15:30:00+02:00", "2026-01-04T13:30:00.000Z"],
    ["2026-01-04T00:30:00+02:00", "2026-01-03T22:30:00.000Z"],
    ["2024-02-29", "2024-02-29T00:00:00.000Z"],
  ])("%s is %s", (text, expected) => expect(parseMoment(text, NOW)).toBe(expected));

  test.each([
    "",
    "2",
    "2 hours",
    "yesterday",
    "2026-02-30",
    "2026-13-01",
    "2026-1-4",
    "2026-01-04T25:00",
    "99999999d",
  ])("%s is not a time", (text) => expect(parseMoment(text, NOW)).toBeUndefined());

  test("every absolute time is read back as itself", () => {
    fc.assert(
      fc.property(fc.date({ min: new Date(0), max: new Date("9999-01-01"), noInvalidDate: true }), (date) => {
        expect(parseMoment(date.toISOString(), NOW)).toBe(date.toISOString());
      }),
    );
  });
});

describe("numbers and labels", () => {
  test.each(["-1", "1.5", "x", "", "6", "1e3"])("%s is not a whole number from 1 to 5", (text) => {
    expect(() => wholeNumber(1, 5)(text)).toThrow("1 to 5");
  });
  test("whole numbers include their bounds", () => expect(["1", "5"].map(wholeNumber(1, 5))).toEqual([1, 5]));
  test.each([
    ["0", 0],
    ["50%", 50],
    ["99.5", 99.5],
    ["100", 100],
  ])("%s is a percentage", (text, value) => expect(percent(text)).toBe(value));
  test.each(["101", "-1", "half", "%"])("%s is not a percentage", (text) =>
    expect(() => percent(text)).toThrow("0 to 100"),
  );

  test("labels accumulate, and their values may contain any characters", () => {
    const labels = ["a=1", "b=x=y", "c=", "a=2", "__proto__=p"].reduce(
      (before, text) => collectLabel(text, before),
      collectLabel("z=0"),
    );
    expect(Object.entries(labels).sort()).toEqual([
      ["__proto__", "p"],
      ["a", "2"],
      ["b", "x=y"],
      ["c", ""],
      ["z", "0"],
    ]);
  });
  test.each(["novalue", "=x", ""])("%s is not a label", (text) =>
    expect(() => collectLabel(text)).toThrow("key=value"),
  );
});

describe("a checkpoint from options", () => {
  test("contains every option, and passes the protocol's schema", () => {
    const { taskId, checkpoint } = checkpointDocument({
      task: "auth",
      type: "implementation",
      phase: "testing",
      goal: "Log in",
      completed: ["Login", "Logout"],
      pending: ["Tests"],
      blocked: ["Deploy because the key is missing", "Docs"],
      decision: ["JWT because it is stateless", "LMDB"],
      next: "Run the tests",
      note: "Before the migration",
      label: { team: "a" },
      progress: 50,
      tokens: 9,
      contextUsed: 5,
      contextLimit: 10,
      session: "s1",
      iteration: 3,
      parent: ["chk-01a20034-080b-7e0f-afff-92b62777977f"],
      retention: "P30D",
    });
    expect(taskId).toBe("auth");
    expect(checkpoint).toEqual({
      metadata: {
        task_id: "auth",
        agent_type: "implementation",
        session_id: "s1",
        iteration: 3,
        parent_ids: ["chk-01a20034-080b-7e0f-afff-92b62777977f"],
        labels: { team: "a" },
        trigger: { reason: "manual", details: "Before the migration" },
      },
      execution_state: {
        phase: "testing",
        goal: "Log in",
        completed_items: ["Login", "Logout"],
        pending_items: ["Tests"],
        blocked_items: [{ title: "Deploy", blocker: "the key is missing" }, "Docs"],
        progress_percent: 50,
        resume_pointer: { next_action: "Run the tests" },
      },
      context_summary: { key_decisions: [{ decision: "JWT", rationale: "it is stateless" }, "LMDB"] },
      metrics: { tokens_consumed: 9, context_tokens: 5, context_limit: 10 },
      compliance: { retention_policy: "P30D" },
    });
    expect(checkpointInputSchema.safeParse(checkpoint).error).toBeUndefined();
  });

  test("takes options before the document, and keeps the rest of it", () => {
    const file = {
      schema_version: "1.0",
      future: { a: 1 },
      metadata: { task_id: "old", agent_type: "qa", labels: { a: "1", b: "2" }, x: 1 },
      execution_state: {
        phase: "planning",
        pending_items: ["a", "b"],
        resume_pointer: { next_action: "n", current_context: "c" },
      },
    };
    const kept = structuredClone(file);
    const { taskId, checkpoint } = checkpointDocument(
      { task: "new", phase: "testing", label: { b: "3" }, next: "m", pending: ["c"] },
      file,
    );
    expect(taskId).toBe("new");
    expect(checkpoint).toEqual({
      schema_version: "1.0",
      future: { a: 1 },
      metadata: { task_id: "new", agent_type: "qa", labels: { a: "1", b: "3" }, x: 1 },
      execution_state: {
        phase: "testing",
        pending_items: ["c"],
        resume_pointer: { next_action: "m", current_context: "c" },
      },
    });
    expect(file).toEqual(kept);
  });

  test("without options is the document", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (extra) => {
        const file = {
          ...extra,
          metadata: { task_id: "t", agent_type: "qa" },
          execution_state: { phase: "testing" },
        };
        const { context_summary: _c, compliance: _d, ...rest } = checkpointDocument({}, file).checkpoint;
        const { context_summary: _e, compliance: _f, ...expected } = file as Record<string, unknown>;
        expect(rest).toEqual(expected);
      }),
    );
  });

  test("keeps a section of the wrong type for the writer's refusal", () => {
    expect(checkpointDocument({}, { execution_state: "x" }).checkpoint.execution_state).toBe("x");
  });

  test("names the missing options", () => {
    expect(missingOptions(checkpointDocument({}))).toEqual(["task", "type", "phase"]);
    expect(missingOptions(checkpointDocument({ type: "qa" }, { metadata: { task_id: "t" } }))).toEqual([
      "phase",
    ]);
    expect(missingOptions(checkpointDocument({ task: "t", type: "qa", phase: "testing" }))).toEqual([]);
  });
});

test.each(["[]", "1", "null", '"x"', "{", ""])("%s is not a document", (text) => {
  expect(() => parseObject(text, "here")).toThrow(/^here is not/);
});

describe("ids", () => {
  test("are spelled as in the protocol", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("", "chk-", "CHK-", "chk-chk-"),
        fc.uuid(),
        fc.boolean(),
        (prefix, uuid, upper) => {
          const id = `${prefix}${upper ? uuid.toUpperCase() : uuid}`;
          expect(bareId(id)).toBe(normalizeCheckpointId(id));
        },
      ),
    );
  });
  test("accumulate", () => expect(collectIds("chk-B", collectIds("A"))).toEqual(["a", "b"]));
});
