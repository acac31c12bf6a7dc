// Every failure has a next step for operators and an exit code for scripts.

import { describe, expect, test } from "vitest";
import { renderFailure } from "../../../services/cli/rendering/terminal/failure.ts";
import { renderWarning } from "../../../services/cli/rendering/terminal/warning.ts";
import { callFailureOf, failureData, UNANSWERED } from "../../../services/cli/runtime/failure.ts";
import { UsageError } from "../../../services/cli/runtime/usage.ts";
import { BusError } from "../../../shared/bus/bus.ts";
import {
  ERROR_CODES,
  ERROR_TABLE,
  type ErrorCode,
  FleetError,
  type FleetErrorOptions,
} from "../../../shared/protocol/errors.ts";
import { SigningRefused } from "../../../shared/protocol/signing-refusal.ts";
import { StartupError } from "../../../shared/runtime/process/startup.ts";
import { noAnswer } from "../../../shared/sdk/request/request.ts";
import { view } from "./rendering/view.ts";

test.each(ERROR_CODES)("%s has its exit code and a next step", (code) => {
  const failure = callFailureOf(new FleetError(code, "text"), { url: "nats://h:1" });
  expect(failure.exitCode).toBe(ERROR_TABLE[code].exit);
  expect(failure.hint).toMatch(/^[A-Z].*\.$/);
  expect(failureData(failure)).toMatchObject({ code, message: "text", hint: failure.hint });
});

test.each(["NOT_FOUND", "CONFLICT"] as const)(
  "%s about a signing key names the command that lists them",
  (code) => {
    const failure = callFailureOf(new FleetError(code, "text", { details: { key_id: "3f9a" } }));
    expect(failure.hint).toContain("`fleet keys list`");
  },
);

test.each([
  [5, "CONFLICT"],
  [8, "CORRUPT"],
  [10, "UNSUPPORTED_VERSION"],
  [64, "USAGE"],
  [69, "UNAVAILABLE"],
  [73, "OUTPUT"],
  [78, "SETTINGS"],
  [1, "UNAVAILABLE"],
])("exit code %i of a program that a command ran has the name %s", (exitCode, code) => {
  expect(callFailureOf(new StartupError("text", { exitCode }))).toMatchObject({ exitCode, body: { code } });
});

test.each(["CONFLICT", "INVALID"] as const)(
  "the step of %s about a file is printed once, as the hint",
  (code) => {
    const next = "give the name of a new file";
    const failure = callFailureOf(new FleetError(code, "text", { details: { file: "/k", next } }));
    expect(renderFailure(failure, view)).toBe(
      `error: text [${code}] (file=/k)\nGive the name of a new file.`,
    );
    expect(failureData(failure)).toMatchObject({ details: { next } });
    const other = callFailureOf(new FleetError("CONFLICT", "text", { details: { next: "fleet doctor" } }));
    expect(renderFailure(other, view)).toContain("(next=fleet doctor)");
  },
);

test("a warning has its facts, and what to use as a sentence", () => {
  const details = { damaged: 1, next: "fleet doctor" };
  expect(renderWarning({ text: "keys are damaged", details })).toBe(
    "warning: keys are damaged (damaged=1); use `fleet doctor`",
  );
  expect(renderWarning({ text: "the clock is wrong", details: {} })).toBe("warning: the clock is wrong");
});

test("about signatures of people, the hint says what to set up, or that nothing was signed", () => {
  const none = { details: { tenant: "default", setting: "FLEET_ESIGN_ISSUERS" } };
  expect(callFailureOf(new FleetError("NOT_FOUND", "text", none)).hint).toContain(
    "Name the identity provider of your people in the file of FLEET_ESIGN_ISSUERS",
  );
  expect(callFailureOf(new SigningRefused("stale")).hint).toContain("Nothing was signed");
  const names = { began_as: "Ada Lovelace", logged_in_as: "Grace\u001b[2J Hopper" };
  const { hint } = callFailureOf(new SigningRefused("person", undefined, names));
  expect(hint).toMatch(/^You began as Ada Lovelace, and logged in as Grace.* Hopper\. Nothing was signed/);
  expect(hint).not.toContain("\u001b");
});

test.each<[ErrorCode, FleetErrorOptions, RegExp]>([
  [
    "CONFLICT",
    { details: { file: "/k", next: "give the name of a new file" } },
    /^Give the name of a new file\.$/,
  ],
  [
    "CONFLICT",
    { details: { setting: "FLEET_ENCRYPTION_KEY" } },
    /^Encrypt the store first: .*set FLEET_ENCRYPTION_KEY/,
  ],
  [
    "FORBIDDEN",
    { details: { bus: "permission", operation: "cmd.hold" } },
    /lack the right hold\. The roles with it: operator, custodian; .*access matrix --right hold` lists/,
  ],
  [
    "FORBIDDEN",
    { details: { bus: "permission", operation: "query.signing_request" } },
    /lack the right sign\. .*operator.*reviewer.*--right sign/,
  ],
  [
    "FORBIDDEN",
    { details: { bus: "permission", operation: "query.key_list" } },
    /lack the right query\.key_list\./,
  ],
  ["FORBIDDEN", { details: { bus: "permission" } }, /^Check --tenant and --agent/],
  ["FORBIDDEN", { details: { actor: "agent-1", needed: "person" } }, /--person/],
  ["FORBIDDEN", { details: { task_id: "auth", requested_by: "human=ada" } }, /^Another person .*task shreds/],
  [
    "NOT_FOUND",
    { details: { task_id: "auth", shred: "approved" } },
    /^The removal is in progress: .*task shreds/,
  ],
  [
    "NOT_FOUND",
    { details: { task_id: "auth", removed: { reason: "shredded" } } },
    /^`fleet task show auth` .*`fleet task shred-certificate auth` proves it/,
  ],
  [
    "NOT_FOUND",
    { details: { task_id: "auth", removed: { reason: "age" } } },
    /^See .*`fleet checkpoint history auth`/,
  ],
  [
    "CONFLICT",
    { details: { task_id: "auth", shred: "requested" } },
    /^Another person .*task shred-approve auth/,
  ],
  ["CONFLICT", { details: { task_id: "auth", hold: "case-1", reason: "audit" } }, /^The first one stays/],
  ["CONFLICT", { details: { task_id: "auth", hold: "case-1", reason: "held" } }, /^The first one stays/],
  [
    "CONFLICT",
    { details: { task_id: "auth", reason: "held", holds: ["case-1"] } },
    /task retain auth --release case-1`/,
  ],
  [
    "CONFLICT",
    { details: { checkpoint_id: "0199", reason: "floor" } },
    /^`fleet checkpoint show 0199` shows/,
  ],
  ["CONFLICT", { details: { task_id: "auth", reason: "recovery" } }, /`fleet recovery show auth`/],
  ["NOT_FOUND", { details: { task_id: "auth", shred: null } }, /`fleet task shreds`/],
  ["NOT_FOUND", { details: { task_id: "auth", shredded_at: "" } }, /`fleet audit show auth`/],
  ["NOT_FOUND", { details: { subject: "ada" } }, /`fleet signers list`/],
])("%s about keys and shredding has a hint that fits: %j", (code, options, hint) => {
  expect(callFailureOf(new FleetError(code, "text", options)).hint).toMatch(hint);
});

test("a removed checkpoint is shown with the time and the reason, and not as JSON", () => {
  const removed = { checkpoint_id: "0199", removed_at: "2026-01-04T10:00:00.000Z", reason: "age", seq: 1 };
  const error = new FleetError("NOT_FOUND", "text", { details: { task_id: "auth", removed } });
  const shown = renderFailure(callFailureOf(error), view);
  expect(shown).toContain("(task_id=auth, removed_at=2026-01-04T10:00:00.000Z, removed_for=age)");
  expect(failureData(callFailureOf(error))).toMatchObject({ details: { removed } });
});

describe("about artifacts and files, the hint names the command that repairs them", () => {
  const sha256 = "0".repeat(64);
  test.each<[ErrorCode, FleetErrorOptions, string]>([
    ["NOT_FOUND", { details: { sha256 } }, "`fleet artifact list`"],
    ["NOT_FOUND", { details: { artifacts: [sha256], count: 1 } }, "`fleet artifact put FILE`"],
    ["CORRUPT", { details: { sha256, part: 1 } }, "`fleet artifact put FILE`"],
    ["CORRUPT", { details: { file: "all.jsonl", line: 7 } }, "`fleet export verify`"],
    ["TOO_LARGE", { details: { total_bytes: 1, total_bytes_max: 1, size: 1 } }, "`fleet artifact list`"],
    ["UNAVAILABLE", { details: { file: "a.jsonl", problem: "ENOSPC" } }, "export --resume --out a.jsonl"],
    [
      "INVALID",
      { fields: [{ path: "checkpoint.artifacts.0.sha256", expected: "an artifact that is stored" }] },
      "`fleet artifact put FILE`",
    ],
  ])("%s %j", (code, options, command) => {
    expect(callFailureOf(new FleetError(code, "text", options)).hint).toContain(command);
  });
});

test("a damaged backup has the code of damage", () => {
  const error = new StartupError("no whole backup", { exitCode: ERROR_TABLE.CORRUPT.exit });
  expect(callFailureOf(error)).toMatchObject({ exitCode: 8, body: { code: "CORRUPT" } });
});

describe("without an answer", () => {
  test("of a bus, the hint shows how to start a fleet, without the password", () => {
    const failure = callFailureOf(new BusError("unavailable", { reason: "refused" }), {
      url: "nats://u:secret@h:4222",
    });
    expect(failure.exitCode).toBe(69);
    expect(failure.hint).toBe(
      "No fleet answers at nats://…@h:4222: start one with `fleet up`. If it runs in another folder or on another port, give the " +
        "address of its bus (FLEET_URL, --url) or its folder (FLEET_HOME).",
    );
    expect(renderFailure(failure, view)).not.toContain("secret");
  });
  test("of a service on a running bus, the hint names the bus", () => {
    const error = new FleetError("UNAVAILABLE", "no service", { details: { bus: "no_responders" } });
    expect(callFailureOf(error, { url: "nats://h:1" }).hint).toMatch(
      /^NATS answers at nats:\/\/h:1, but no Fleet/,
    );
  });
  test("the hint names the source of the address and the program", () => {
    const place = { url: "nats://h:1", origin: "from FLEET_URL", fleet: "npx fleet" };
    expect(callFailureOf(new BusError("unavailable"), place).hint).toMatch(
      /^No fleet answers at nats:\/\/h:1 \(from FLEET_URL\): start one with `npx fleet up`\. /,
    );
    expect(callFailureOf(new FleetError("TIMEOUT", "no answer"), place).hint).toContain(
      "nats://h:1 (from FLEET_URL)",
    );
  });
  test("for a position that the index has not reached, the hint names its position", () => {
    const details = { indexed_through: "00000000000000000042", wait_for: "f".repeat(20) };
    const { hint } = callFailureOf(new FleetError("UNAVAILABLE", "not yet", { details }));
    expect(hint).toBe(
      "The index has not reached this position, which may not exist yet: it is complete through 00000000000000000042.",
    );
  });
  test("of an overloaded fleet, the hint says to try again", () => {
    expect(callFailureOf(new FleetError("UNAVAILABLE", "busy")).hint).toContain("try again");
  });
  test("the message has no second next step beside the hint", () => {
    const failure = callFailureOf(noAnswer("unavailable", { url: "nats://h:1" }), { url: "nats://h:1" });
    expect(failureData(failure)).toMatchObject({ code: "UNAVAILABLE", message: "no Fleet service answers" });
  });
  test("a refusal by the bus has its own exit code", () =>
    expect(callFailureOf(new BusError("permission")).exitCode).toBe(77));
});

test("after a person has not answered at a browser, the hint does not blame the fleet", () => {
  const error = new FleetError("TIMEOUT", "the person did not log in in time", { details: UNANSWERED });
  const { hint } = callFailureOf(error, { url: "nats://h:1", commandId: "mine" });
  expect(hint).toBe(
    "Nothing was signed. Repeat the call, and answer at the address that it prints within 10 minutes.",
  );
});

test("after a failed login at the identity provider, the hint does not blame the fleet", () => {
  const details = { issuer: "https://login.example.org", problem: "ECONNREFUSED" };
  const error = new FleetError("UNAVAILABLE", "the login at the identity provider failed", { details });
  const { hint } = callFailureOf(error, { url: "nats://h:1" });
  expect(hint).toContain("the fleet had answered");
  expect(hint).toContain("identity provider");
});

test("after a timeout, the hint repeats the command id", () => {
  const error = new FleetError("TIMEOUT", "no answer", { details: { command_id: "made-by-the-sdk" } });
  expect(callFailureOf(error).hint).toContain("--command-id made-by-the-sdk");
  expect(callFailureOf(new FleetError("TIMEOUT", "no answer"), { commandId: "mine" }).hint).toContain(
    "--command-id mine",
  );
  expect(callFailureOf(new FleetError("TIMEOUT", "no answer")).hint).not.toContain("--command-id");
});

test.each([
  ["NOT_FOUND", {}, "fleet checkpoint list"],
  ["NOT_FOUND", { handoff: "auth" }, "fleet handoff list"],
  ["NOT_FOUND", { seq: 17 }, "fleet queue dead list"],
  ["NOT_FOUND", { task_id: "auth", seq: 17 }, "fleet audit show auth"],
  ["NOT_FOUND", { message_id: "msg-0001", mission_id: "m" }, "fleet message read --all --mission m"],
  ["NOT_FOUND", { mission_id: "m", sortie_id: "srt-001" }, "fleet sortie list --mission m"],
  ["NOT_FOUND", { path: "a.ts", held_by: null }, "fleet lock list"],
  ["NOT_FOUND", { mission_id: "m" }, "fleet mission list"],
  ["NOT_FOUND", { sha256: "0".repeat(64) }, "fleet artifact list"],
  ["CONFLICT", { mission_id: "m", status: "completed" }, "fleet mission show m"],
  ["CONFLICT", { message_id: "msg-0001", mission_id: "m" }, "fleet message list --mission m"],
  ["CONFLICT", { open: 50, bytes: 9_000, from: "s1" }, "fleet message list"],
  ["CONFLICT", { path: "a.ts", held_by: "s1" }, "fleet lock list"],
  ["CONFLICT", { handoff_id: "one" }, "fleet handoff show one"],
  ["CONFLICT", {}, "fleet task show <task>"],
  ["CONFLICT", { task_id: "auth" }, "fleet task show auth"],
  ["FENCED", {}, "fleet fence take <task>"],
  ["FENCED", { task_id: "auth" }, "fleet fence take auth"],
] as const)("%s of %o: the hint names the command to look with", (code, details, command) => {
  expect(callFailureOf(new FleetError(code, "text", { details })).hint).toContain(`\`${command}\``);
});

test("a bug in the program keeps its stack", () => {
  const failure = callFailureOf(new TypeError("x is not a function"));
  expect(failure).toMatchObject({ exitCode: 70, body: { code: "INTERNAL" } });
  expect(renderFailure(failure, view)).toMatch(/failure\.test\.ts/);
  expect(callFailureOf("thrown text")).toMatchObject({ body: { message: "thrown text" } });
});

test.each(ERROR_CODES)("the hint of %s uses the name of the program", (code) => {
  const { hint } = callFailureOf(new FleetError(code, "text"), { fleet: "npx fleet" });
  expect(hint).not.toMatch(/`fleet /);
});

test("wrong settings and wrong calls have their own codes", () => {
  expect(callFailureOf(new StartupError("wrong", { exitCode: 78 }))).toMatchObject({
    exitCode: 78,
    body: { code: "SETTINGS" },
  });
  expect(callFailureOf(new UsageError("wrong", "Do this."))).toMatchObject({
    exitCode: 64,
    hint: "Do this.",
    body: { code: "USAGE" },
  });
});

test("every wrong field has its own line", () => {
  const error = new FleetError("INVALID", "the input is not valid", {
    fields: [
      { path: "execution_state.phase", expected: "one of a, b", got: '"c"' },
      { path: "", expected: "an object" },
    ],
  });
  expect(renderFailure(callFailureOf(error), view).split("\n")).toEqual([
    "error: the input is not valid [INVALID]",
    '  execution_state.phase: expected one of a, b; got "c"',
    "  the whole input: expected an object",
    "Correct the fields above; --help describes each option.",
  ]);
});
