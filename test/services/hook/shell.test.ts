// The shell program of hooks beside the one of Node: the same events, the same secrets removed, and no Node for the usual event.

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { parseHookEvent } from "../../../services/hook/event.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { ADDRESS_CASES } from "../../shared/sdk/redaction/address-passwords.ts";
import { openHooks, type TestHooks } from "./hook-process.ts";
import { payloadsOf, type VendorPayloads } from "./payloads.ts";

const SILENT = { exit: 0, out: "", err: "" };
const HOOK = join(projectRoot, "deploy", "hook");
/** What `sh` is on one system or another. */
const SHELLS = ["dash", "bash", "busybox sh"]
  .map((shell) => ({ shell, words: shell.split(" ") }))
  .filter(({ words: [program = "", ...args] }) => spawnSync(program, [...args, "-c", "exit 0"]).status === 0);

describe("with a helper", () => {
  let fleet: TestFleet;
  let reader: FleetClient;
  let hooks: TestHooks;
  let payloads: VendorPayloads;
  let env: Record<string, string>;
  let tests = 0;

  beforeAll(async () => {
    fleet = await startFleet();
    reader = await fleet.client("orchestrator-1", "default", { role: "orchestrator" });
  });
  afterAll(() => fleet?.stop());
  beforeEach(async () => {
    tests += 1;
    env = { FLEET_HOME: fleet.home, FLEET_AGENT_ID: `agent-${tests}`, FLEET_TASK: `task-${tests}` };
    hooks = openHooks("claude-code", env);
    payloads = payloadsOf("claude-code", `session-${tests}`, { cwd: hooks.folder, transcript: "" });
    await hooks.run(...payloads.start("startup"));
    await hooks.drained();
  });
  afterEach(() => hooks.stop());

  const filesOf = async (task: string) =>
    (await reader.getLatestCheckpoint(task, { deadlineMs: 20_000 }))?.metrics.files_modified;

  test.each(SHELLS)("$shell takes the usual events and prints the answer without Node", async ({ words }) => {
    // Without the other programs of Fleet beside it.
    const alone = mkdtempSync(join(tmpdir(), "fleet-hook-alone-"));
    onTestFinished(() => rmSync(alone, { recursive: true }));
    for (const name of ["fleet.sh", "event.awk"]) cpSync(join(HOOK, name), join(alone, name));
    const same = openHooks("claude-code", { ...env, PATH: "/usr/bin:/bin" }, [
      ...words,
      join(alone, "fleet.sh"),
    ]);
    onTestFinished(() => same.stop());
    const folder = { FLEET_HOOK_DIR: hooks.folder };
    expect(await same.run(...payloads.edit("a.ts"), folder)).toEqual(SILENT);
    expect(await same.run(...payloads.stop(false, "Done."), folder)).toEqual(SILENT);
    const { exit, out, err } = await same.run(...payloads.start("compact"), folder);
    expect({ exit, err }).toEqual({ exit: 0, err: "" });
    expect(JSON.parse(out).hookSpecificOutput.additionalContext).toContain("a.ts");
    await hooks.drained();
    expect(await filesOf(`task-${tests}`)).toEqual(["a.ts"]);
  });

  test("an event larger than its limit is left to Node, which shortens it", async () => {
    const [event, payload] = payloads.edit("large.ts");
    await hooks.run(event, { ...payload, tool_response: { originalFile: "x".repeat(200_000) } });
    await hooks.run(...payloads.stop(false, "Done."));
    await hooks.drained();
    expect(await filesOf(`task-${tests}`)).toEqual(["large.ts"]);
  });

  test("a helper that is stopped holds an agent no longer than its wait, and gets the event later", async () => {
    const pid = Number(readFileSync(join(hooks.folder, "helper.pid"), "utf8"));
    await hooks.run(...payloads.edit("a.ts"));
    process.kill(pid, "SIGSTOP");
    try {
      expect(await hooks.run(...payloads.stop(false, "Done."), { FLEET_HOOK_WAIT: "300" })).toEqual(SILENT);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await hooks.drained();
    expect(await filesOf(`task-${tests}`)).toEqual(["a.ts"]);
  });

  test("a helper that is gone while another process has its number is started again", async () => {
    await hooks.run(...payloads.edit("a.ts"));
    await hooks.drained();
    hooks.killHelpers();
    writeFileSync(join(hooks.folder, "helper.pid"), `${process.pid}\n`);
    expect(await hooks.run(...payloads.stop(false, "Done."), { FLEET_HOOK_WAIT: "300" })).toEqual(SILENT);
    await hooks.drained();
    expect(await filesOf(`task-${tests}`)).toEqual(["a.ts"]);
    expect(readFileSync(join(hooks.folder, "helper.pid"), "utf8")).not.toBe(`${process.pid}\n`);
  });
});

describe("the kept event", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "fleet-hook-kept-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Calls a program beside a helper that takes no events. */
  async function keptBy(
    words: readonly string[],
    payload: string,
    env: Record<string, string>,
    home = "/home/fleet",
  ) {
    const own = mkdtempSync(join(folder, "hooks-"));
    for (const name of ["inbox", "answers"]) mkdirSync(join(own, name));
    writeFileSync(join(own, "helper.pid"), `${process.pid}\n`);
    const server = createServer().listen(join(own, "helper.sock"));
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const [program = "", ...args] = words;
    const { status, stdout, stderr } = spawnSync(
      program,
      [...args, "hook", "codex", "PostToolUse", "--home", home],
      {
        input: payload,
        cwd: folder,
        encoding: "utf8",
        env: { PATH: process.env.PATH, ...env, FLEET_HOOK_DIR: own },
      },
    );
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "", stderr: "" });
    const names = readdirSync(join(own, "inbox"));
    expect(names).toEqual([expect.stringMatching(/^\d{14}-\d+\.event$/)]);
    const {
      answer: _,
      at: __,
      env: kept,
      ...event
    } = parseHookEvent(readFileSync(join(own, "inbox", names[0]!), "utf8"), 0);
    return { ...event, env: { ...kept, FLEET_HOOK_DIR: "" } };
  }

  const NODE = [process.execPath, join(projectRoot, "deploy", "local", "fleet.mjs")];
  const SECRET = "correct horse, battery";

  test.each([
    ["a plain value", { MY_API_KEY: "abcdefgh-ijkl" }, "abcdefgh-ijkl"],
    ["a name with the word at its end", { DB_PASS: "abcdefgh-ijkl" }, "abcdefgh-ijkl"],
    ["a name without such a word", { MY_PATH_SEEDS: "abcdefgh-ijkl" }, "abcdefgh-ijkl"],
    [
      "a variable that the user names",
      { FLEET_SECRET_NAMES: "A, MY_OWN", MY_OWN: "abcdefgh-ijkl" },
      "abcdefgh-ijkl",
    ],
    [
      "passwords in addresses",
      { DATABASE_URL: "postgres://app:delta-Quartz-74@db/x", CACHES: "a redis://:echo-Quartz-75@c:1,b" },
      "delta-Quartz-74 and echo-Quartz-75, app",
    ],
    [
      "a password in an address with encoded characters",
      { REDIS_URL: "rediss://u:p%40ss%22Quartz%2F7@h:1/0" },
      `p%40ss%22Quartz%2F7 and p@ss"Quartz/7`,
    ],
    [
      "a password in an address with an umlaut",
      { REDIS_URL: "redis://u:gr%C3%B6sse-7-Quartz@h" },
      "grösse-7-Quartz gr%C3%B6sse-7-Quartz",
    ],
    ["a password with a wrong code", { MY_URL: "http://u:ab%zz-Quartz-7@h" }, "ab%zz-Quartz-7"],
    [
      "an address whose password is a word",
      { PG: "postgres://postgres:postgres@h" },
      "the postgres of postgres",
    ],
    ["an address without a password", { A: "https://host:8080/user@elsewhere" }, "8080/user elsewhere"],
    ["a value with marks of JSON", { MY_SECRET: `a"b\\c\td\ne` }, `a"b\\c\td\ne`],
    ["a value that contains its mark", { MY_TOKEN: "redacted" }, "redacted and [redacted]"],
    [
      "several values",
      { A_KEY: "first-value", B_AUTH: "second-value" },
      "first-value second-value first-value",
    ],
    ["a number, which is none", { MY_TOKEN: "123456789" }, "123456789"],
    ["a path, which is none", { MY_KEY: "~/keys/private" }, "~/keys/private"],
    ["a short value, which is none", { MY_KEY: "abc" }, "abc"],
    ["a value that begins with a slash", { MY_KEY: "/9j+4AAQSkZJRg==" }, "/9j+4AAQSkZJRg=="],
    ["a folder, which is none", { MY_KEY: tmpdir() }, tmpdir()],
    ["a variable of several lines", { FLEET_NOTE: "a\nvendor=other", MY_KEY: SECRET }, SECRET],
    [
      "values of which one begins the other",
      { A_TOKEN: "prefix-abc1", B_TOKEN: "prefix-abc1-rest" },
      "prefix-abc1-rest",
    ],
    ["other characters", { MY_KEY: "schlüssel-größe" }, "schlüssel-größe 😀 \u2028"],
  ])("is the same from the shell and from Node, with %s", async (_, env, text) => {
    const payload = JSON.stringify({
      session_id: "s-1",
      tool_name: "Bash",
      tool_input: { command: `x ${text} y` },
    });
    const byNode = await keptBy(NODE, payload, env);
    for (const { words } of SHELLS) {
      const byShell = await keptBy([...words, join(HOOK, "fleet.sh")], payload, env);
      expect(byShell).toEqual(byNode);
    }
  });

  test("names the fleet of the installed command, or that of an agent that a runner started", async () => {
    const payload = JSON.stringify({ session_id: "s-1", tool_name: "Bash", tool_input: { command: "x" } });
    const other = { FLEET_HOME: "/home/other" };
    for (const words of [NODE, ...SHELLS.map((shell) => [...shell.words, join(HOOK, "fleet.sh")])]) {
      expect((await keptBy(words, payload, other)).env).toMatchObject({ FLEET_HOME: "/home/fleet" });
      const started = { ...other, FLEET_AGENT_ID: "agent-1" };
      expect((await keptBy(words, payload, started)).env).toMatchObject(started);
      const without = { FLEET_AGENT_ID: "agent-1" };
      expect((await keptBy(words, payload, without)).env).toMatchObject({ FLEET_HOME: "/home/fleet" });
    }
  });

  test("has no variables of another fleet's bus, and no secrets that stand in them", async () => {
    const payload = (text: string) =>
      JSON.stringify({
        session_id: "s-1",
        tool_name: "Bash",
        tool_input: { command: "x delta-Quartz-74" },
        text,
      });
    const ofBus = {
      FLEET_URL: "nats://app:delta-Quartz-74@other:4222",
      FLEET_NATS_CREDS: "/other/a.creds",
      FLEET_NATS_TOKEN_FILE: "/other/token",
      FLEET_NATS_CA: "/other/ca.pem",
      FLEET_NATS_CERT: "/other/cert.pem",
      FLEET_NATS_KEY: "/other/key.pem",
    };
    const other = { FLEET_HOME: "/home/other", FLEET_TENANT: "acme", ...ofBus };
    const ofFleet = { FLEET_TENANT: "acme", FLEET_HOME: "/home/fleet", FLEET_HOOK_DIR: "" };
    for (const words of [NODE, ...SHELLS.map((shell) => [...shell.words, join(HOOK, "fleet.sh")])]) {
      // The second is so large that the shell leaves it to Node.
      for (const text of ["", "x".repeat(110_000)]) {
        const { env, payload: kept } = await keptBy(words, payload(text), other);
        expect(env).toEqual(ofFleet);
        expect(kept).toMatchObject({ tool_input: { command: "x [redacted]" } });
      }
      // The variables of the installed fleet, of an agent that a runner started, and of a shell without a home.
      for (const own of [
        { FLEET_HOME: "/home/fleet" },
        { FLEET_AGENT_ID: "agent-1" },
        { FLEET_HOME: "" },
        {},
      ]) {
        const { env } = await keptBy(words, payload(""), { ...ofBus, ...own });
        expect(env).toEqual({ ...ofBus, ...own, FLEET_HOME: "/home/fleet", FLEET_HOOK_DIR: "" });
      }
    }
  });

  test("takes another path to the folder of the installed fleet for the same", async () => {
    const payload = JSON.stringify({ session_id: "s-1", tool_name: "Bash", tool_input: { command: "x" } });
    const home = mkdtempSync(join(folder, "home-"));
    symlinkSync(home, join(folder, "link"));
    const env = { FLEET_HOME: join(folder, "link"), FLEET_URL: "nats://other:4222" };
    for (const words of [NODE, ...SHELLS.map((shell) => [...shell.words, join(HOOK, "fleet.sh")])]) {
      const { env: kept } = await keptBy(words, payload, env, home);
      expect(kept).toEqual({ FLEET_HOME: home, FLEET_URL: env.FLEET_URL, FLEET_HOOK_DIR: "" });
    }
  });

  test.each(ADDRESS_CASES)("has no password of an address with $name", async ({ value, passwords }) => {
    const command = (words: readonly string[]) => ({
      session_id: "s-1",
      tool_input: { command: `x ${words.join(" and ")} y` },
    });
    const payload = JSON.stringify(command(passwords));
    for (const words of [NODE, ...SHELLS.map((shell) => [...shell.words, join(HOOK, "fleet.sh")])]) {
      const { payload: kept } = await keptBy(words, payload, { DATABASE_URL: value });
      expect(kept).toEqual(command(passwords.map(() => "[redacted]")));
    }
  });
});
