// Identifiers and subjects: the texts that may become a token of a subject, and no others.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checkpointIdSchema,
  idTime,
  isCheckpointId,
  isToken,
  normalizeCheckpointId,
  tokenSchema,
} from "../../../shared/protocol/ids.ts";
import { COMMAND_OPS } from "../../../shared/protocol/operations.ts";
import {
  answersCaller,
  parseCommandSubject,
  parseQuerySubject,
  SUBJECTS,
} from "../../../shared/protocol/subjects.ts";

const ID = "01981c5e-7b2a-7cc3-98c4-dc0c0c07398f";

describe("tokens", () => {
  test.each([["a"], ["A-Z_09"], ["-"], ["_"], ["x".repeat(64)], ["0"]])("%s is a token", (value) => {
    expect(isToken(value)).toBe(true);
    expect(tokenSchema.safeParse(value).success).toBe(true);
  });

  test.each([
    [""],
    ["x".repeat(65)],
    ["a.b"],
    ["*"],
    [">"],
    ["a b"],
    ["a\n"],
    ["a\r\nPUB x 0"],
    ["ä"],
    ["а"],
    ["a/b"],
    ["$JS"],
    ["a\u0000"],
    ["😂"],
  ])("%j is no token", (value) => {
    expect(isToken(value)).toBe(false);
    expect(tokenSchema.safeParse(value).success).toBe(false);
  });
});

describe("checkpoint ids", () => {
  test.each([[ID], [`chk-${ID}`], [ID.toUpperCase()], [`chk-${ID.toUpperCase()}`]])(
    "%s becomes the plain id",
    (given) => {
      expect(checkpointIdSchema.parse(given)).toBe(ID);
      expect(normalizeCheckpointId(given)).toBe(ID);
    },
  );

  test.each([
    ["version 4", "3b241101-e2bb-4255-8caf-4136c566a962"],
    ["version 1", "c232ab00-9414-11ec-b3c8-9f6bdeced846"],
    ["another variant", "01981c5e-7b2a-7cc3-18c4-dc0c0c07398f"],
    ["no dashes", ID.replaceAll("-", "")],
    ["braces", `{${ID}}`],
    ["a prefix twice", `chk-chk-${ID}`],
    ["another prefix", `cp-${ID}`],
    ["a line break after it", `${ID}\n`],
    ["one character too many", `${ID}0`],
    ["nothing", ""],
    ["the prefix alone", "chk-"],
  ])("%s is refused", (_, given) => {
    expect(checkpointIdSchema.safeParse(given).success).toBe(false);
    expect(isCheckpointId(given)).toBe(false);
  });

  test("idTime reads the time of an id", () => {
    // RFC 9562, appendix A.6: Tuesday, February 22, 2022 2:22:22.00 PM GMT-05:00.
    expect(idTime("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")).toBe(Date.parse("2022-02-22T14:22:22-05:00"));
  });

  test("idTime reads any time back", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), (ms) => {
        const hex = ms.toString(16).padStart(12, "0");
        expect(idTime(`${hex.slice(0, 8)}-${hex.slice(8)}-7cc3-98c4-dc0c0c07398f`)).toBe(ms);
      }),
    );
  });
});

const HOSTILE = ["", ".", "*", ">", "a.b", "a b", "a\n", "x".repeat(65), "ä", "fleet.cmd.>"];
const builders: [name: string, build: (value: string) => string][] = [
  ["tenant of a command", (value) => SUBJECTS.command(value, "a", "t", "create")],
  ["agent of a command", (value) => SUBJECTS.command("d", value, "t", "create")],
  ["task of a command", (value) => SUBJECTS.command("d", "a", value, "create")],
  ["tenant of a query", (value) => SUBJECTS.query(value, "a", "get")],
  ["caller of a query", (value) => SUBJECTS.query("d", value, "get")],
  ["tenant of an event", (value) => SUBJECTS.event(value, "T", "t")],
  ["type of an event", (value) => SUBJECTS.event("d", value, "t")],
  ["task of an event", (value) => SUBJECTS.event("d", "T", value)],
  ["tenant of a subscription", (value) => SUBJECTS.tenantEvents(value)],
  ["tenant of a task's subscription", (value) => SUBJECTS.taskEvents(value, "t")],
  ["task of a task's subscription", (value) => SUBJECTS.taskEvents("d", value)],
  ["tenant of an alert", (value) => SUBJECTS.alert(value, "high", "t")],
  ["severity of an alert", (value) => SUBJECTS.alert("d", value, "t")],
  ["task of an alert", (value) => SUBJECTS.alert("d", "high", value)],
  ["caller of an accepted offer", (value) => SUBJECTS.acceptance("d", value, "t", "a")],
  ["agent of an accepted offer", (value) => SUBJECTS.acceptance("d", "a", "t", value)],
  ["tenant of an inbox", (value) => SUBJECTS.inboxPrefix(value, "a")],
  ["caller of an inbox", (value) => SUBJECTS.inboxPrefix("d", value)],
  ["service of an inbox", (value) => SUBJECTS.serviceInboxPrefix(value, "i")],
  ["instance of a service's inbox", (value) => SUBJECTS.serviceInboxPrefix("s", value)],
];

describe("subjects", () => {
  test.each(builders)("a hostile %s is refused", (_, build) => {
    for (const value of HOSTILE) {
      expect(() => build(value), JSON.stringify(value)).toThrow(expect.objectContaining({ code: "INVALID" }));
    }
    expect(build("good-1_X")).toContain("good-1_X");
  });

  test("a command subject is parsed back, and has as many tokens as the subscription", () => {
    const token = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/);
    fc.assert(
      fc.property(token, token, token, fc.constantFrom(...COMMAND_OPS), (tenant, agent, task, op) => {
        const subject = SUBJECTS.command(tenant, agent, task, op);
        expect(parseCommandSubject(subject)).toEqual({ tenant, agent, task, op });
        expect(subject.split(".")).toHaveLength(SUBJECTS.everyCommand.split(".").length);
      }),
    );
  });

  test("the subject of an offer that is accepted for an agent names the agent, and never a person", () => {
    const subject = SUBJECTS.acceptance("default", "runner-box", "task-1", "qa-9");
    expect(parseCommandSubject(subject)).toEqual({
      ...{ tenant: "default", agent: "qa-9", task: "task-1", op: "acknowledge" },
    });
    expect(subject.split(".")).toHaveLength(SUBJECTS.everyAcceptance.split(".").length);
    expect(answersCaller(subject, "_INBOX.default.runner-box.x.1")).toBe(true);
    expect(answersCaller(subject, "_INBOX.default.qa-9.x.1")).toBe(false);
    for (const person of ["human=ada", "human=runner-box"])
      expect(() =>
        parseCommandSubject(SUBJECTS.acceptance("default", "runner-box", "task-1", person)),
      ).toThrow(expect.objectContaining({ code: "FORBIDDEN" }));
  });

  test("a query's subject is parsed back", () => {
    expect(parseQuerySubject(SUBJECTS.query("default", "agent-1", "by_agent"))).toEqual({
      tenant: "default",
      caller: "agent-1",
      op: "by_agent",
    });
  });

  test.each([
    ["fleet.cmd"],
    ["fleet.cmd.d.a"],
    ["fleet.cmd..a.t.create"],
    [`fleet.cmd.${"x".repeat(65)}.a.t.create`],
    ["fleet.cmd.d.ä.t.create"],
    ["fleet.cmd.d.fleet.t.create"],
    ["fleet.cmd.d.a.t.acknowledge."],
    ["fleet.cmd.d.a.t.acknowledge.fleet"],
  ])("%s is no command's subject", (subject) => {
    expect(() => parseCommandSubject(subject)).toThrow(expect.objectContaining({ code: "INVALID" }));
  });
});
