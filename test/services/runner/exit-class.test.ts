/** Every end of a process has a failure class. The exit note and the runner's own reason come before the exit code. */
import { constants } from "node:os";
import { describe, expect, test } from "vitest";
import { classOf, detailsOf, type ExitContext, signalOf } from "../../../services/runner/agent/exit-class.ts";
import type { Exit } from "../../../services/runner/launchers/launcher.ts";
import { killsIn } from "../../../services/runner/launchers/oom-kills.ts";
import { FAILURE_CLASSES } from "../../../shared/protocol/exit-report.ts";

const PLAIN: Exit = {
  code: null,
  signal: null,
  problem: null,
  outOfMemory: false,
  lost: false,
  startedAt: "2026-01-01T00:00:00.000Z",
  endedAt: "2026-01-01T00:01:00.000Z",
};
const NOTHING: ExitContext = { note: undefined, stopped: undefined, codes: {} };
const of = (exit: Partial<Exit>, more: Partial<ExitContext> = {}) =>
  classOf({ ...PLAIN, ...exit }, { ...NOTHING, ...more });

test.each([
  [0, "completed"],
  [1, "crash"],
  [2, "crash"],
  [7, "completed"],
  [8, "corrupt_state"],
  [10, "unrecoverable"],
  [64, "unrecoverable"],
  [69, "tool_error"],
  [70, "crash"],
  [75, "rate_limit"],
  [76, "context_exhausted"],
  [77, "unrecoverable"],
  [78, "unrecoverable"],
  [124, "timeout"],
  [126, "not_started"],
  [127, "not_started"],
  [130, "crash"],
  [137, "crash"],
  [139, "crash"],
  [143, "crash"],
  [152, "timeout"],
  [255, "crash"],
] as const)("exit code %i is %s", (code, expected) => expect(of({ code })).toBe(expected));

test("there is a class for every exit code and every signal", () => {
  for (let code = 0; code < 256; code += 1) expect(FAILURE_CLASSES).toContain(of({ code }));
  for (const signal of Object.keys(constants.signals)) expect(FAILURE_CLASSES).toContain(of({ signal }));
});

test.each([
  ["SIGKILL", "crash"],
  ["SIGTERM", "crash"],
  ["SIGSEGV", "crash"],
  ["SIGABRT", "crash"],
  ["SIGXCPU", "timeout"],
  ["SIGALRM", "timeout"],
])("%s is %s", (signal, expected) => expect(of({ signal })).toBe(expected));

describe("lack of memory", () => {
  test("SIGKILL next to a kill for lack of memory is out_of_memory, also behind a shell", () => {
    expect(of({ signal: "SIGKILL", outOfMemory: true })).toBe("out_of_memory");
    expect(of({ code: 137, outOfMemory: true })).toBe("out_of_memory");
  });

  test("any other end next to such a kill keeps its own class", () => {
    expect(of({ code: 1, outOfMemory: true })).toBe("crash");
    expect(of({ code: 0, outOfMemory: true })).toBe("completed");
    expect(of({ signal: "SIGSEGV", outOfMemory: true })).toBe("crash");
  });

  test("the count of kills is read from the system's files", () => {
    expect(killsIn("low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 0\n")).toBe(2);
    expect(killsIn("nr_free_pages 1\noom_kill 17\ndrop_pagecache 0\n")).toBe(17);
    expect(killsIn("anon 4096\n")).toBeNull();
  });
});

describe("precedence", () => {
  test("an agent that never ran is not_started, regardless of any other reason", () => {
    expect(of({ problem: "ENOENT" }, { note: { class: "completed" }, stopped: "run_time" })).toBe(
      "not_started",
    );
  });

  test("the agent's exit note takes precedence over its exit code and the runner's reason", () => {
    expect(of({ code: 1 }, { note: { class: "rate_limit" } })).toBe("rate_limit");
    expect(of({ signal: "SIGKILL" }, { note: { class: "context_exhausted" }, stopped: "run_time" })).toBe(
      "context_exhausted",
    );
    expect(of({ code: 1 }, { note: { details: "no class" } })).toBe("crash");
  });

  test("an agent that exceeded its run time is a timeout", () => {
    expect(of({ signal: "SIGKILL" }, { stopped: "run_time" })).toBe("timeout");
    expect(of({ code: 0 }, { stopped: "run_time" })).toBe("timeout");
  });

  test("an agent that a stopping runner ended has completed if its exit code is 0, otherwise crashed", () => {
    expect(of({ code: 0 }, { stopped: "runner_stopped" })).toBe("completed");
    expect(of({ signal: "SIGTERM" }, { stopped: "runner_stopped" })).toBe("crash");
  });

  test("the settings of an agent type override the class of an exit code", () => {
    expect(of({ code: 3 }, { codes: { "3": "rate_limit" } })).toBe("rate_limit");
    expect(of({ code: 0 }, { codes: { "0": "tool_error" } })).toBe("tool_error");
  });

  test("an unknown end is a crash", () => expect(of({ lost: true })).toBe("crash"));
});

test("a shell's exit code yields the name of the signal", () => {
  expect(signalOf({ code: 137, signal: null })).toBe("SIGKILL");
  expect(signalOf({ code: null, signal: "SIGTERM" })).toBe("SIGTERM");
  expect(signalOf({ code: 1, signal: null })).toBeNull();
  expect(signalOf({ code: 128, signal: null })).toBeNull();
});

test("the details add what class and code do not say", () => {
  expect(detailsOf({ ...PLAIN, code: 1 }, NOTHING)).toBeUndefined();
  expect(detailsOf({ ...PLAIN, problem: "ENOENT" }, NOTHING)).toBe("could not be started: ENOENT");
  expect(detailsOf({ ...PLAIN, code: 127 }, NOTHING)).toBe(
    "could not be started: its program, or one that it starts, was not found (exit code 127)",
  );
  expect(detailsOf({ ...PLAIN, code: 127 }, { ...NOTHING, codes: { "127": "crash" } })).toBeUndefined();
  expect(
    detailsOf(
      { ...PLAIN, signal: "SIGKILL" },
      { ...NOTHING, note: { details: "out of budget" }, stopped: "run_time" },
    ),
  ).toBe("out of budget; it exceeded the run_ms of its agent type");
});
