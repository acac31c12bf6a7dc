// Hooks under attack: hostile and huge input, foreign folders, killed and concurrent helpers. With real processes.

import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { openHooks, type TestHooks } from "./hook-process.ts";
import { payloadsOf, type VendorPayloads } from "./payloads.ts";

const DEADLINE = { deadlineMs: 20_000 };
const SILENT = { exit: 0, out: "", err: "" };
const STARTED = "helper of the hooks started";
let fleet: TestFleet;
let reader: FleetClient;
let hooks: TestHooks;
let payloads: VendorPayloads;
let cwd: string;
let tests = 0;
let task: string;

beforeAll(async () => {
  fleet = await startFleet();
  reader = await fleet.client("orchestrator-1", "default", { role: "orchestrator" });
});
afterAll(() => fleet?.stop());

beforeEach(() => {
  tests += 1;
  task = `task-${tests}`;
  hooks = openHooks("claude-code", {
    FLEET_HOME: fleet.home,
    FLEET_AGENT_ID: `agent-${tests}`,
    FLEET_TASK: task,
  });
  cwd = join(hooks.folder, "work");
  mkdirSync(cwd);
  payloads = payloadsOf("claude-code", `session-${tests}`, { cwd, transcript: join(cwd, "none") });
});
afterEach(() => hooks.stop());

const latest = () => reader.getLatestCheckpoint(task, DEADLINE);
const messages = () => hooks.log().map(({ msg }) => msg);
const helpers = () => hooks.log().flatMap(({ msg, pid }) => (msg === STARTED ? [pid as number] : []));

test("a tool that reports many megabytes is recorded, and its event on disk is small", async () => {
  mkdirSync(join(hooks.folder, "helper.sock"));
  const [event, payload] = payloads.edit("large.ts");
  const content = "x".repeat(3_000_000);
  const edits = Array.from({ length: 1_000 }, () => ({
    old_string: content.slice(0, 2_000),
    new_string: "y",
  }));
  const tool_input = { content, edits, file_path: "large.ts" };
  await hooks.run(event, { ...payload, tool_input, tool_response: { originalFile: content } });
  const [name = ""] = readdirSync(join(hooks.folder, "inbox"));
  expect(statSync(join(hooks.folder, "inbox", name)).size).toBeLessThan(200_000);
  rmSync(join(hooks.folder, "helper.sock"), { recursive: true });
  await hooks.run(...payloads.stop(false, "Done."));
  await hooks.drained();
  expect((await latest())?.metrics.files_modified).toEqual(["large.ts"]);
});

test("an error text that is cut within a character does not lose the work", async () => {
  await hooks.run(...payloads.edit("a.ts"));
  const error = `${"x".repeat(99)}😀 and more`;
  await hooks.run("StopFailure", { session_id: `session-${tests}`, cwd, error });
  await hooks.drained();
  expect((await latest())?.metrics.files_modified).toEqual(["a.ts"]);
});

test("a file whose name is no text does not lose the event", async () => {
  const [event, payload] = payloads.edit("half.ts");
  const text = JSON.stringify(payload).replaceAll("half.ts", "half\\ud800.ts");
  await hooks.run(event, text);
  await hooks.run(...payloads.stop(false, "Done."));
  await hooks.drained();
  expect((await latest())?.metrics.files_modified).toEqual(["half\ufffd.ts"]);
});

test("values that are nested ten thousand levels deep break nothing", async () => {
  const [event, payload] = payloads.edit("deep.ts");
  const deep = `${"[".repeat(10_000)}${"]".repeat(10_000)}`;
  await hooks.run(event, `${JSON.stringify(payload).slice(0, -1)},"deep":${deep}}`);
  await hooks.run(...payloads.stop(false, "Done."));
  await hooks.drained();
  expect((await latest())?.metrics.files_modified).toEqual(["deep.ts"]);
});

test("a secret variable whose value begins with a digit or a slash is in no checkpoint", async () => {
  const env = { MY_API_KEY: "0f3acafe77aa91b2", OTHER_TOKEN: "/9j+4AAQSkZJRg==" };
  await hooks.run(...payloads.prompt(`Use ${env.MY_API_KEY} and ${env.OTHER_TOKEN}`), env);
  await hooks.run(...payloads.edit("a.ts"), env);
  await hooks.run(...payloads.stop(false, `I used ${env.MY_API_KEY}.`), env);
  await hooks.drained();
  const text = JSON.stringify(await latest());
  expect(text).toContain("[redacted]");
  expect(text).not.toContain(env.MY_API_KEY);
  expect(text).not.toContain(env.OTHER_TOKEN);
});

test("passwords, tokens, cookies and seeds by their short names, and named variables, are in no checkpoint", async () => {
  const secrets = {
    DB_PASS: "bravo-quartz-plum",
    GITHUB_PAT: "charlie-quartz-plum",
    SESSION_COOKIE: "echo-quartz-plum",
    WALLET_SEED: "foxtrot-quartz-plum",
    SENTRY_DSN: "golf-quartz-plum",
    SPECIAL: "hotel-quartz-plum",
  };
  const env = { ...secrets, FLEET_SECRET_NAMES: "SPECIAL" };
  await hooks.run(...payloads.prompt(`Use ${Object.values(secrets).join(" and ")}`), env);
  await hooks.run(...payloads.edit("a.ts"), env);
  await hooks.run(...payloads.stop(false, `I used ${Object.values(secrets).join(" and ")}.`), env);
  await hooks.drained();
  const text = JSON.stringify(await latest());
  expect(text).toContain("[redacted]");
  expect(text).not.toContain("quartz-plum");
});

test("an error text with a secret leaves none in the session", async () => {
  const key = `sk-ant-api03-${"aB3".repeat(12)}`;
  await hooks.run("StopFailure", { session_id: `session-${tests}`, cwd, error: `The key ${key} is wrong` });
  await hooks.drained();
  const agent = await fleet.client(`agent-${tests}`);
  const earlier = { event: "after_model", at: "2026-01-24T10:00:00.000Z", vendor: "claude-code" } as const;
  const { session } = await agent.turnEvent({ sessionId: `session-${tests}`, ...earlier, ...DEADLINE });
  expect(session.end_reason).toMatch(/^The key \[redacted.* is wrong$/);
});

test("a transcript that is a pipe holds nothing up", async () => {
  const pipe = join(cwd, "pipe");
  execFileSync("mkfifo", [pipe]);
  const piped = payloadsOf("claude-code", `session-${tests}`, { cwd, transcript: pipe });
  await hooks.run(...piped.edit("a.ts"));
  await hooks.run(...piped.stop(false, "Done."));
  await hooks.drained();
  expect((await latest())?.metrics.files_modified).toEqual(["a.ts"]);
});

test("a helper that is started by the event itself answers it", async () => {
  await hooks.run(...payloads.edit("a.ts"));
  await hooks.run(...payloads.stop(false, "Done."));
  await hooks.drained();
  hooks.killHelpers();
  const { out } = await hooks.run(...payloads.start("compact"));
  expect(JSON.parse(out).hookSpecificOutput.additionalContext).toContain("a.ts");
});

test("a fleet that is away does not shorten the wait of another fleet's agent", async () => {
  await hooks.run(...payloads.edit("a.ts"));
  await hooks.run(...payloads.stop(false, "Done."));
  await hooks.drained();
  const lost = payloadsOf("claude-code", "lost", { cwd, transcript: "" });
  const away = { FLEET_URL: "nats://127.0.0.1:1", FLEET_HOME: mkdtempSync(join(tmpdir(), "fleet-away-")) };
  await hooks.run(...lost.edit("b.ts"), away);
  const outages = () => messages().filter((msg) => msg === "the fleet does not take events now").length;
  await expect.poll(outages).toBe(1);
  process.kill(fleet.pid(), "SIGSTOP");
  const started = hooks.run(...payloads.start("compact"));
  await expect
    .poll(outages)
    .toBe(2)
    .finally(() => process.kill(fleet.pid(), "SIGCONT"));
  const { out } = await started;
  rmSync(away.FLEET_HOME, { recursive: true });
  expect(JSON.parse(out).hookSpecificOutput.additionalContext).toContain("a.ts");
});

test("hook processes that are killed before they ask leave nothing open in the helper", async () => {
  await hooks.run(...payloads.start("startup"));
  const [pid = 0] = helpers();
  const sockets = () =>
    readdirSync(`/proc/${pid}/fd`).filter((fd) => linkOf(`/proc/${pid}/fd/${fd}`).startsWith("socket:"))
      .length;
  const before = sockets();
  for (let n = 0; n < 50; n += 1) {
    const killed = createConnection(join(hooks.folder, "helper.sock"));
    await new Promise((resolve) => killed.once("connect", resolve));
    killed.destroy();
  }
  // Its answer comes after the helper has accepted the others.
  await hooks.run(...payloads.stop(false, ""));
  await expect.poll(sockets).toBeLessThan(before + 10);
});

test("of helpers that are started at the same time beside a dead socket one stays, and it answers", async () => {
  await hooks.run(...payloads.start("startup"));
  hooks.killHelpers();
  const children = Array.from({ length: 4 }, () =>
    spawn(process.execPath, [join(projectRoot, "services", "hook", "main.ts")], {
      env: { ...process.env, FLEET_HOOK_DIR: hooks.folder },
      stdio: "ignore",
    }),
  );
  await expect.poll(() => children.filter(({ exitCode }) => exitCode === null).length).toBe(1);
  const started = helpers().length;
  await hooks.run(...payloads.edit("a.ts"));
  await hooks.run(...payloads.stop(false, "Done."));
  await hooks.drained();
  expect((await latest())?.metrics.files_modified).toEqual(["a.ts"]);
  expect(helpers().length).toBe(started);
});

test("while no helper can be started, the oldest events are dropped", async () => {
  mkdirSync(join(hooks.folder, "helper.sock"));
  const inbox = join(hooks.folder, "inbox");
  mkdirSync(inbox);
  for (let n = 0; n < 5_010; n += 1) writeFileSync(join(inbox, `${String(n).padStart(14, "0")}-1.event`), "");
  expect(await hooks.run(...payloads.edit("a.ts"))).toEqual(SILENT);
  const names = readdirSync(inbox).sort();
  expect(names).toHaveLength(5_000);
  expect(readFileSync(join(inbox, names.at(-1)!), "utf8")).toContain("a.ts");
});

test("a folder that others may read becomes the user's alone", async () => {
  chmodSync(hooks.folder, 0o777);
  await hooks.run(...payloads.edit("a.ts"));
  expect(statSync(hooks.folder).mode & 0o777).toBe(0o700);
  await hooks.drained();
});

test.skipIf(process.getuid?.() !== 0)("nothing is written into the folder of another user", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-foreign-"));
  try {
    chmodSync(folder, 0o777);
    chownSync(folder, 12_345, 12_345);
    const { exit, out, err } = await hooks.run(...payloads.edit("a.ts"), { FLEET_HOOK_DIR: folder });
    expect({ exit, out }).toEqual({ exit: 0, out: "" });
    expect(err).toContain("belongs to another user");
    expect(readdirSync(folder)).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}
