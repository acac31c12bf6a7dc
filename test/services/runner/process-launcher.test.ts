/** Agents as child processes: real ones, which end in every way there is. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { LaunchedAgent, LaunchSpec } from "../../../services/runner/launchers/launcher.ts";
import { ProcessLauncher } from "../../../services/runner/launchers/process.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { gone, said, scratch, specOf } from "./launcher-bench.ts";

const root = scratch();
const launcher = new ProcessLauncher(systemClock);
const started: LaunchedAgent[] = [];
const children: ChildProcess[] = [];

afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  await Promise.all(started.splice(0).map((running) => running.stop(0)));
});
afterAll(async () => {
  await launcher.close();
  rmSync(root, { recursive: true, force: true });
});

async function start(spec: LaunchSpec, by = launcher): Promise<LaunchedAgent> {
  const running = await by.start(spec);
  started.push(running);
  return running;
}

test("an agent's exit code is told, and its times", async () => {
  const { exited, pid } = await start(specOf(root, "42"));
  expect(pid).toBeGreaterThan(1);
  const exit = await exited;
  expect(exit).toMatchObject({ code: 42, signal: null, problem: null, lost: false, outOfMemory: false });
  expect(Date.parse(exit.endedAt)).toBeGreaterThanOrEqual(Date.parse(exit.startedAt));
});

test("an agent that is killed ends with the signal", async () => {
  const { exited } = await start(specOf(root, "kill"));
  expect(await exited).toMatchObject({ code: null, signal: "SIGKILL", lost: false });
});

test("a command that does not exist, or a folder that does not, is an agent that could not be started", async () => {
  const missing = await start(specOf(root, "0", { argv: ["no-such-agent-program"] }));
  expect(missing.pid).toBeNull();
  expect(await missing.exited).toMatchObject({
    code: null,
    signal: null,
    problem: "spawn no-such-agent-program ENOENT",
  });
  const nowhere = await start(specOf(root, "0", { cwd: join(root, "nowhere") }));
  expect(await nowhere.exited).toMatchObject({
    problem: `the working folder ${join(root, "nowhere")} does not exist`,
  });
  const forbidden = specOf(root, "0");
  const script = join(forbidden.folder, "script");
  writeFileSync(script, "#!/bin/sh\n", { mode: 0o600 });
  const refused = await start({ ...forbidden, argv: [script] });
  expect(await refused.exited).toMatchObject({ problem: `spawn ${script} EACCES` });
});

test.each(["file", "stdin"] as const)(
  "the prompt arrives by %s as it was, and nothing in it is obeyed",
  async (channel) => {
    const prompt = `'; touch "$(pwd)/owned"; echo \`id\` $HOME && exit 1 #\n\ttab\r\n\u0000\u001b[31m\n%s {task_id} \\ é 🚀\n\n`;
    const spec = specOf(root, "tell");
    const path = join(spec.folder, "prompt.md");
    writeFileSync(path, prompt);
    const argument = "$(touch owned) `touch owned` 'one' \"two\"\nthree";
    const { exited } = await start({
      ...spec,
      argv: [...spec.argv, argument],
      env: { ...spec.env, WORD: argument, ...(channel === "file" && { FLEET_PROMPT_FILE: path }) },
      prompt: { channel, path },
    });
    expect(await exited).toMatchObject({ code: 0 });
    const told = JSON.parse(await said(spec.folder, "told.json"));
    expect(Buffer.from(told.prompt, "base64").toString()).toBe(prompt);
    expect(told.argv).toEqual([argument]);
    expect(told.env.WORD).toBe(argument);
    expect(existsSync(join(spec.folder, "owned"))).toBe(false);
  },
);

test("an agent gets the environment that it is given, and nothing of the runner's", async () => {
  process.env.OF_THE_RUNNER = "secret";
  const spec = specOf(root, "tell");
  const path = join(spec.folder, "prompt.md");
  writeFileSync(path, "go");
  const { exited } = await start({
    ...spec,
    env: { ...spec.env, FLEET_PROMPT_FILE: path, NODE_OPTIONS: "--no-warnings" },
  });
  await exited;
  const { env } = JSON.parse(await said(spec.folder, "told.json"));
  expect(env).toMatchObject({ FLEET_PROMPT_FILE: path, NODE_OPTIONS: "--no-warnings" });
  expect(env.OF_THE_RUNNER).toBeUndefined();
});

describe("stopping", () => {
  test("an agent that obeys ends with its own exit code", async () => {
    const spec = specOf(root, "obey");
    const running = await start(spec);
    await said(spec.folder, "agent.pid");
    await running.stop(20_000);
    expect(await running.exited).toMatchObject({ code: 0, signal: null });
    expect(await said(spec.folder, "asked")).toBe("SIGTERM");
  });

  test("an agent that ignores it is killed after the grace", async () => {
    const spec = specOf(root, "ignore");
    const running = await start(spec);
    const pid = Number(await said(spec.folder, "agent.pid"));
    await running.stop(300);
    expect(await running.exited).toMatchObject({ code: null, signal: "SIGKILL" });
    expect(await said(spec.folder, "asked")).toBe("SIGTERM");
    expect(processMark(pid)).toBeUndefined();
  });

  test("what an agent has started ends with it", async () => {
    const spec = specOf(root, "fork");
    const running = await start(spec);
    const grandchild = Number(await said(spec.folder, "grandchild.pid"));
    expect(processMark(grandchild)).toBeDefined();
    await running.stop(200);
    await gone(grandchild);
  });

  test("what an agent leaves behind when it ends by itself is ended too", async () => {
    const spec = specOf(root, "leave");
    const running = await start(spec);
    expect(await running.exited).toMatchObject({ code: 3 });
    await gone(Number(await said(spec.folder, "grandchild.pid")));
  });
});

test("of what an agent prints the newest part is kept, and no more than was allowed", async () => {
  const spec = specOf(root, "shout", { logBytes: 100_000 });
  const { exited } = await start(spec);
  expect(await exited).toMatchObject({ code: 0 });
  const log = join(spec.folder, "output.log");
  expect(statSync(log).size + statSync(`${log}.1`).size).toBeLessThanOrEqual(100_000);
  expect(statSync(`${log}.1`).size).toBeGreaterThan(40_000);
  expect(readFileSync(log, "utf8")).toContain("last words");
  expect(statSync(log).mode & 0o077).toBe(0);
});

describe("a runner that was killed", () => {
  /** A runner of its own process that starts this agent and is killed. */
  async function startedByAnother(spec: LaunchSpec): Promise<void> {
    const child = spawn(
      process.execPath,
      ["test/services/runner/launcher.program.ts", JSON.stringify(spec)],
      {
        cwd: projectRoot,
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    children.push(child);
    await once(child.stdout, "data");
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  test("its agent is found again by the next one, not started twice, and its end is told", async () => {
    const spec = specOf(root, "obey");
    await startedByAnother(spec);
    const pid = Number(await said(spec.folder, "agent.pid"));
    const found = await Promise.all([start(spec), start(spec)]);
    expect(found.map((running) => running.pid)).toEqual([pid, pid]);
    expect(processMark(pid)).toBeDefined();
    await found[0]?.stop(20_000);
    expect(await found[1]?.exited).toMatchObject({ code: 0, lost: false });
  });

  test("its agent that ended meanwhile is not started again", async () => {
    const spec = specOf(root, "5");
    await startedByAnother(spec);
    expect(await (await start(spec)).exited).toMatchObject({ code: 5, lost: false });
    expect(await (await start(spec)).exited).toMatchObject({ code: 5, lost: false });
  });

  test("an agent whose attendant was killed too is ended, and nobody claims to know how", async () => {
    const spec = specOf(root, "wait");
    const running = await start(spec);
    const pid = Number(await said(spec.folder, "agent.pid"));
    const attendant = JSON.parse(readFileSync(join(spec.folder, "attendant.json"), "utf8"));
    process.kill(attendant.pid, "SIGKILL");
    expect(await running.exited).toMatchObject({ lost: true, code: null, signal: null });
    await gone(pid);
    expect(await (await start(spec)).exited).toMatchObject({ lost: true });
  });
});

test("of many that start one agent at once one starts it", async () => {
  const spec = specOf(root, "wait");
  const launchers = Array.from({ length: 4 }, () => new ProcessLauncher(systemClock));
  const found = await Promise.all(launchers.map((one) => start(spec, one)));
  expect(new Set(found.map(({ pid }) => pid)).size).toBe(1);
  await found[0]?.stop(0);
  await Promise.all(found.map(({ exited }) => exited));
  await Promise.all(launchers.map((one) => one.close()));
});
