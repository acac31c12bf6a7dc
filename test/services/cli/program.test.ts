// Calls that need no fleet: help, usage errors, and the effects of a terminal.

import { describe, expect, test } from "vitest";
import { fullCall } from "../../../services/cli/input/spelling.ts";
import type { ProcessContext } from "../../../services/cli/runtime/process-context.ts";
import { createProgram, run } from "../../../services/cli/runtime/program.ts";
import { Session } from "../../../services/cli/runtime/session.ts";
import { BUILTIN_AGENT_TYPES, FINAL_STATUSES, PHASES } from "../../../shared/protocol/checkpoint.ts";
import { ERROR_CODES } from "../../../shared/protocol/errors.ts";

interface Result {
  readonly exit: number;
  readonly out: string;
  readonly err: string;
}

function processContext(
  argv: readonly string[],
  { tty = false, env = {} } = {},
): ProcessContext & { printed: { out: string; err: string } } {
  const printed = { out: "", err: "" };
  const output = (name: "out" | "err") => ({
    isTTY: tty,
    write: (text: string) => {
      printed[name] += text;
    },
  });
  return {
    argv,
    env,
    stdin: process.stdin,
    inputKind: "nothing",
    stdout: output("out"),
    stderr: output("err"),
    now: () => 0,
    printed,
  };
}

async function fleet(
  line: string,
  options: { tty?: boolean; env?: Record<string, string> } = {},
): Promise<Result> {
  const context = processContext(line.split(" ").filter(Boolean), options);
  const exit = await run(context);
  return { exit, ...context.printed };
}

type Commands = ReturnType<typeof createProgram>;
const paths = (command: Commands, before: string[] = []): string[][] =>
  command.commands.flatMap((child) => [
    [...before, child.name()],
    ...paths(child, [...before, child.name()]),
  ]);
const every = paths(createProgram(processContext([]), () => {})).map((path) => path.join(" "));

describe("help", () => {
  test.each(every)("fleet %s --help", async (path) => {
    const { exit, out, err } = await fleet(`${path} --help`);
    expect({ exit, err }).toEqual({ exit: 0, err: "" });
    expect(out).toContain(`Usage: fleet ${path}`);
    expect(out).toContain("--json");
  });

  test("an option of a command between is no global option of its subcommand", async () => {
    const globalOf = async (path: string) =>
      /Global Options:\n((?: .*\n)+)/
        .exec((await fleet(`${path} --help`)).out)?.[1]
        ?.match(/^ +-.*?>?(?= {2})/gm);
    const { out } = await fleet("import langgraph --help");
    expect(out).toContain("--sqlite <file>");
    expect(out).not.toContain("--task");
    expect(await globalOf("import langgraph")).toEqual(await globalOf("status"));
  });

  test.each(every)("fleet %s --help uses the name of the program", async (path) => {
    const { out } = await fleet(`${path} --help`, { env: { npm_command: "exec" } });
    expect(out).toContain(`Usage: npx fleet ${path}`);
    expect(
      out.match(
        /(?<!npx )\bfleet (up|status|checkpoint|task|resume|recovery|fence|handoff|alerts|agents|audit|scrub|index|queue|spool|events)\b/,
      ),
    ).toBeNull();
  });

  test.each([
    ["checkpoint list", "(default 20, at most 100, or 1000 with --task alone)"],
    ["checkpoint search", "(default 20, at most 100)"],
    ["checkpoint history", "(default 20, at most 1000)"],
    ["audit show", "(default 100, at most 500)"],
    ["queue dead list", "(default 20, at most 100)"],
  ])("fleet %s names its limits", async (path, range) => {
    expect((await fleet(`${path} --help`)).out.replace(/\s+/g, " ")).toContain(range);
  });

  test("names every exit code", async () => {
    const { out } = await fleet("--help");
    for (const code of [...ERROR_CODES, "USAGE", "SETTINGS"]) expect(out).toContain(`${code}:`);
  });

  test("names the phases, types and statuses of the protocol", async () => {
    const { out } = await fleet("checkpoint create --help");
    for (const word of [...PHASES, ...BUILTIN_AGENT_TYPES]) expect(out).toContain(word);
    const finalize = await fleet("checkpoint finalize --help");
    for (const word of FINAL_STATUSES) expect(finalize.out).toContain(`"${word}"`);
  });
});

test.each([
  ["tasks", "task list"],
  ["tasks --state active", "task list --state active"],
  ["tasks show auth", "task show auth"],
  ["--json tasks", "--json task list"],
  ["--agent tasks handoffs", "--agent tasks handoff list"],
  ["checkpoint --task auth", "checkpoint create --task auth"],
  ["checkpoint list", "checkpoint list"],
  ["checkpoint --help", "checkpoint --help"],
  ["checkpoints", "checkpoint list"],
  ["help handoffs", "help handoff"],
  ["handoff tasks", "handoff tasks"],
  ["resume tasks", "resume tasks"],
  ["constructor", "constructor"],
  ["", ""],
])("fleet %s means fleet %s", (short, full) => {
  expect(fullCall(short.split(" ").filter(Boolean)).join(" ")).toBe(full);
});

describe("usage errors end with 64 and print nothing on standard output", () => {
  test.each([
    ["chekpoint", "unknown command 'chekpoint'", "Did you mean `fleet checkpoint`? See `fleet --help`."],
    [
      "checkpoints lst",
      "unknown command 'lst'",
      "Did you mean `fleet checkpoint list`? See `fleet checkpoint --help`.",
    ],
    [
      "update x",
      "unknown command 'update'",
      "Did you mean `fleet checkpoint update` or `fleet mission update`",
    ],
    ["recover auth", "unknown command 'recover'", "Did you mean `fleet recovery start`?"],
    ["ls tasks", "unknown command 'ls'", "Did you mean `fleet task list`?"],
    ["show handoffs", "unknown command 'show'", "Did you mean `fleet handoff show`?"],
    ["accept auth", "unknown command 'accept'", "Did you mean `fleet handoff take`?"],
    ["handoff reset auth", "unknown command 'reset'", "Did you mean `fleet recovery reset`?"],
    ["hsitory auth", "unknown command 'hsitory'", "Did you mean `fleet checkpoint history`?"],
    ["--person ada statsu", "unknown command 'statsu'", "Did you mean `fleet status`?"],
    ["xyzzy", "unknown command 'xyzzy'", "See `fleet --help`."],
    ["task auth", "unknown command 'auth'", "Did you mean `fleet task show auth`? See `fleet task --help`."],
    ["audit auth --from 3", "unknown command 'auth'", "Did you mean `fleet audit show auth`?"],
    ["recovery auth", "unknown command 'auth'", "Did you mean `fleet recovery show auth`?"],
    ["handoffs auth", "unknown command 'auth'", "Did you mean `fleet handoff show auth`?"],
    ["checkpoints chk-1", "unknown command 'chk-1'", "Did you mean `fleet checkpoint show chk-1`?"],
    ["alerts default/auth/17", "unknown command", "Did you mean `fleet alerts show default/auth/17`?"],
    ["task $(id)", "unknown command '$(id)'", "See `fleet task --help`."],
    ["agents auth", "unknown command 'auth'", "See `fleet agents --help`."],
    ["checkpoint auth", "unknown command 'auth'", "Did you mean `fleet checkpoint --task auth`?"],
    [
      "checkpoint -t auth --type qa --phase testing --next Continue",
      'the next action says nothing to an agent that does not know your context: "Continue"',
      'Name the exact next step, such as "Analyze source 3',
    ],
    [
      "checkpoint -t auth --type qa --phase testing --reason mood",
      "Allowed choices are progress",
      "`fleet checkpoint create --help`",
    ],
    ["status --jsn", "unknown option '--jsn'", "see `fleet status --help`."],
    ["status more", "too many arguments", "`fleet status --help`"],
    ["checkpoint update x", "--patch", "`fleet checkpoint update --help`"],
    [
      "checkpoint finalize x --status done",
      "Allowed choices are succeeded",
      "`fleet checkpoint finalize --help`",
    ],
    ["checkpoint list --limit 0", "1 or more", "`fleet checkpoint list --help`"],
    ["checkpoint list --limit 101", "--limit is too large: 101", "(default 20, at most 100, or 1000 with"],
    ["checkpoint list --task t --limit 1001", "'1001' is invalid", "(default 20, at most 100, or 1000 with"],
    ["checkpoint search -n 101", "1 or more (default 20, at most 100)", "`fleet checkpoint search --help`"],
    ["checkpoint history t -n 1001", "(default 20, at most 1000)", "`fleet checkpoint history --help`"],
    ["audit show t -n 501", "(default 100, at most 500)", "`fleet audit show --help`"],
    ["resume t --budget 5kg", "'5kg' is invalid", "2000, 9500c, or one of default, codex_hook, claude_hook"],
    ["resume t --budget 0", "'0' is invalid", "`fleet resume --help`"],
    [
      "resume t --style haiku",
      "Allowed choices are standard, steps, mission, pointer",
      "`fleet resume --help`",
    ],
    ["resume t --workspace /nowhere/at/all", "/nowhere/at/all is not a folder", "--no-workspace"],
    ["status --url http://h:1", "--url has the wrong scheme: http", "starts with nats, tls, ws, wss"],
    ["checkpoints prune --keep 0", "'0' is invalid", "`fleet checkpoint prune --help`"],
    ["checkpoints prune --task a --mission b", "name different tasks", "Give one of them."],
    ["task retain auth", "there is nothing to change", "--policy, --hold or --release"],
    ["recovery run", "a task is missing", "--blocked for all blocked tasks"],
    ["recovery reset auth --blocked", "--blocked does not apply to one task", "Name a task"],
    [
      "recovery run auth --dry-run",
      "--dry-run does not apply to one task",
      "fleet recovery start auth --dry-run",
    ],
    ["recovery reset --blocked --yes --command-id x", "cannot be used", "`fleet recovery reset --help`"],
    ["status --tenant a.b", "--tenant is not a valid name", "1 to 64 characters"],
    ["checkpoint --progress 101", "0 to 100", "`fleet checkpoint create --help`"],
    ["status --timeout 5", "such as 5s", "`fleet status --help`"],
    ["checkpoint search --from yesterday", "--from is not a time: yesterday", "30m, 2h, 7d"],
    ["checkpoint show US-003", "'US-003'", "Did you mean `fleet checkpoint history US-003`?"],
    ["message send Stop --to --agent s1", "argument '--agent' is invalid", "`fleet message send --help`"],
    ["message send Stop --to s1,s2", "Separate recipients with spaces.", "`fleet message send --help`"],
    ["message send Stop --to fleet", "and not fleet", "`fleet message send --help`"],
    ["message send --to s1 Stop", "missing required argument 'subject'", "write the argument before it"],
    [
      "message send Stop --to s1 --expires 10x",
      "a number alone is in seconds",
      "`fleet message send --help`",
    ],
    ["message ack msg-0001", "does not say in which mission it is", "msn-auth/msg-0001"],
    ["message ack 3 --mission m", "3 is not the id of a message", "msn-auth/msg-0003"],
    ["message cancel m/msg-0001 --mission n", "is not in the mission n", "Leave out --mission."],
    ["checkpoint update chk-x --patch {", "--patch is not JSON", "one JSON object"],
    ["checkpoint update chk-x --patch @/nowhere/at/all", "cannot be read: ENOENT", "Give the path"],
  ])("fleet %s", async (line, what, next) => {
    const { exit, out, err } = await fleet(line);
    expect({ exit, out }).toEqual({ exit: 64, out: "" });
    expect(err).toMatch(/^error: .*\[USAGE\]/);
    expect(err).toContain(what);
    expect(err.toLowerCase()).toContain(next.toLowerCase());
  });

  test.each(["", "task", "handoff", "audit"])("fleet %s shows help on standard error", async (line) => {
    const { exit, out, err } = await fleet(line);
    expect({ exit, out }).toEqual({ exit: 64, out: "" });
    expect(err).toContain("Usage: fleet");
  });

  test("are JSON with --json", async () => {
    const { exit, out, err } = await fleet("chekpoint --json");
    expect({ exit, out }).toEqual({ exit: 64, out: "" });
    expect(JSON.parse(err)).toMatchObject({ error: { code: "USAGE", retryable: false } });
    const unnamed = JSON.parse((await fleet("task auth --json")).err) as object;
    expect(unnamed).toMatchObject({
      error: { hint: "Did you mean `fleet task show auth`? See `fleet task --help`." },
    });
  });
});

test.each(["FLEET_URL=nonsense", "FLEET_URL="])("with the setting %s", async (setting) => {
  const [name = "", value = ""] = setting.split("=");
  const { exit, err } = await fleet("status --timeout 50ms --url nats://127.0.0.1:1", {
    env: { [name]: value },
  });
  expect(exit).toBe(value === "" ? 69 : 78);
  expect(err).toContain(value === "" ? "fleet up" : "FLEET_URL: expected URL");
});

test("every wrong setting is named at once", async () => {
  const { exit, out, err } = await fleet("status", {
    env: { FLEET_URL: "http://h:1", FLEET_TENANT: "a.b", FLEET_AGENT_ID: "a b" },
  });
  expect({ exit, out }).toEqual({ exit: 78, out: "" });
  expect(err).toContain("FLEET_URL: expected URL starting with nats:");
  expect(err).toContain('FLEET_TENANT: expected 1 to 64 characters of A-Z a-z 0-9 _ -; got "a.b"');
  expect(err).toContain("FLEET_AGENT_ID: expected 1 to 64");
});

test("the source of an address that does not answer is named", async () => {
  const { exit, err } = await fleet("status --url nats://127.0.0.1:1", { env: { npm_command: "exec" } });
  expect(exit).toBe(69);
  expect(err).toContain("No fleet answers at nats://127.0.0.1:1 (from --url): start one with `npx fleet up`");
});

describe("global options", () => {
  test.each(["--json version", "version --json"])("fleet %s", async (line) => {
    const { exit, out } = await fleet(line);
    expect(exit).toBe(0);
    expect(JSON.parse(out)).toEqual({ version: expect.stringMatching(/^\d/), node: process.versions.node });
  });

  test("--version is an option of the program, and of show with a number", async () => {
    expect((await fleet("--version")).out).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect((await fleet("checkpoint show x --version y")).err).toContain("whole number");
  });
});

describe("colours", () => {
  test.each([
    ["nope", { tty: true }, true],
    ["nope", {}, false],
    ["nope --no-color", { tty: true }, false],
    ["nope", { tty: true, env: { NO_COLOR: "1" } }, false],
    ["nope", { tty: true, env: { TERM: "dumb" } }, false],
    ["nope --json", { tty: true }, false],
  ])("fleet %s with %j: %s", async (line, options, colored) => {
    const { err } = await fleet(line, options);
    expect(err.includes("\u001b[31m")).toBe(colored);
  });
});

describe("warnings", () => {
  const warning = {
    code: "CHECKPOINT_CORRUPT",
    text: "a checkpoint is corrupt",
    details: { checkpoint_id: "x" },
  };

  test("are printed on standard error", () => {
    const context = processContext([], { tty: true });
    new Session(context, {}).warn(warning);
    expect(context.printed).toEqual({
      out: "",
      err: "\u001b[33mwarning: a checkpoint is corrupt (checkpoint_id=x)\u001b[39m\n",
    });
  });

  test("are JSON with --json", () => {
    const context = processContext([]);
    new Session(context, { json: true }).warn(warning);
    expect(context.printed.out).toBe("");
    expect(JSON.parse(context.printed.err)).toEqual({ warning });
  });
});
