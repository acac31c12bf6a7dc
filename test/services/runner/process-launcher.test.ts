/** Agents as child processes: real processes, with every kind of end. */
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
import { fileOf, processEnded, scratch, specOf } from "./launcher-bench.ts";

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

test("the exit has the agent's exit code and its times", async () => {
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

test("a missing command or working folder is a failed start", async () => {
  const missing = await start(specOf(root, "0", { argv: ["no-such-agent-program"] }));
  expect(missing).toMatchObject({ pid: null, isStarted: false });
  expect(await missing.exited).toMatchObject({
    code: null,
    signal: null,
    problem: "the program no-such-agent-program was not found",
  });
  const nowhere = await start(specOf(root, "0", { cwd: join(root, "nowhere") }));
  expect(await nowhere.exited).toMatchObject({
    problem: `the working folder ${join(root, "nowhere")} does not exist`,
  });
  const forbidden = specOf(root, "0");
  const script = join(forbidden.folder, "script");
  writeFileSync(script, "#!/bin/sh\n", { mode: 0o600 });
  const refused = await start({ ...forbidden, argv: [script] });
  expect(await refused.exited).toMatchObject({ problem: `the program ${script} may not be executed` });
});

test.each(["file", "stdin"] as const)(
  "the prompt arrives by %s unchanged, and no shell interprets it",
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
    const report = JSON.parse(await fileOf(spec.folder, "self-report.json"));
    expect(Buffer.from(report.prompt, "base64").toString()).toBe(prompt);
    expect(report.argv).toEqual([argument]);
    expect(report.env.WORD).toBe(argument);
    expect(existsSync(join(spec.folder, "owned"))).toBe(false);
  },
);

test("an agent gets its own environment, without that of the runner", async () => {
  process.env.OF_THE_RUNNER = "secret";
  const spec = specOf(root, "tell");
  const path = join(spec.folder, "prompt.md");
  writeFileSync(path, "go");
  const { exited } = await start({
    ...spec,
    env: { ...spec.env, FLEET_PROMPT_FILE: path, NODE_OPTIONS: "--no-warnings" },
  });
  await exited;
  const { env } = JSON.parse(await fileOf(spec.folder, "self-report.json"));
  expect(env).toMatchObject({ FLEET_PROMPT_FILE: path, NODE_OPTIONS: "--no-warnings" });
  expect(env.OF_THE_RUNNER).toBeUndefined();
});

describe("stopping", () => {
  test("an agent that handles SIGTERM ends with its own exit code", async () => {
    const spec = specOf(root, "obey");
    const running = await start(spec);
    await fileOf(spec.folder, "agent.pid");
    await running.stop(20_000);
    expect(await running.exited).toMatchObject({ code: 0, signal: null });
    expect(await fileOf(spec.folder, "asked")).toBe("SIGTERM");
  });

  test("an agent that ignores SIGTERM is killed after the grace period", async () => {
    const spec = specOf(root, "ignore");
    const running = await start(spec);
    const pid = Number(await fileOf(spec.folder, "agent.pid"));
    await running.stop(300);
    expect(await running.exited).toMatchObject({ code: null, signal: "SIGKILL" });
    expect(await fileOf(spec.folder, "asked")).toBe("SIGTERM");
    expect(processMark(pid)).toBeUndefined();
  });

  test("the child processes of an agent end with it", async () => {
    const spec = specOf(root, "fork");
    const running = await start(spec);
    const grandchild = Number(await fileOf(spec.folder, "grandchild.pid"));
    expect(processMark(grandchild)).toBeDefined();
    await running.stop(200);
    await processEnded(grandchild);
  });

  test("processes that an agent leaves behind are ended", async () => {
    const spec = specOf(root, "leave");
    const running = await start(spec);
    expect(await running.exited).toMatchObject({ code: 3 });
    await processEnded(Number(await fileOf(spec.folder, "grandchild.pid")));
  });
});

test("the newest output is kept, within the limit", async () => {
  const spec = specOf(root, "shout", { logBytes: 100_000 });
  const { exited } = await start(spec);
  expect(await exited).toMatchObject({ code: 0 });
  const log = join(spec.folder, "output.log");
  expect(statSync(log).size + statSync(`${log}.1`).size).toBeLessThanOrEqual(100_000);
  expect(statSync(`${log}.1`).size).toBeGreaterThan(40_000);
  expect(readFileSync(log, "utf8")).toContain("the last line");
  expect(statSync(log).mode & 0o077).toBe(0);
});

describe("a runner that was killed", () => {
  /** Starts the agent in a runner process that is then killed. */
  async function startInKilledRunner(spec: LaunchSpec): Promise<void> {
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

  test("the next runner finds its agent, does not start a second one, and learns its exit", async () => {
    const spec = specOf(root, "obey");
    await startInKilledRunner(spec);
    const pid = Number(await fileOf(spec.folder, "agent.pid"));
    const found = await Promise.all([start(spec), start(spec)]);
    expect(found.map((running) => running.pid)).toEqual([pid, pid]);
    expect(processMark(pid)).toBeDefined();
    await found[0]?.stop(20_000);
    expect(await found[1]?.exited).toMatchObject({ code: 0, lost: false });
  });

  test("its agent that ended in the meantime is not started again", async () => {
    const spec = specOf(root, "5");
    await startInKilledRunner(spec);
    expect(await (await start(spec)).exited).toMatchObject({ code: 5, lost: false });
    expect(await (await start(spec)).exited).toMatchObject({ code: 5, lost: false });
  });

  test("an agent whose shim was killed too is ended, with an unknown exit", async () => {
    const spec = specOf(root, "wait");
    const running = await start(spec);
    const pid = Number(await fileOf(spec.folder, "agent.pid"));
    const shim = JSON.parse(readFileSync(join(spec.folder, "attendant.json"), "utf8"));
    process.kill(shim.pid, "SIGKILL");
    expect(await running.exited).toMatchObject({ lost: true, code: null, signal: null });
    await processEnded(pid);
    expect(await (await start(spec)).exited).toMatchObject({ lost: true });
  });
});

test("if several launchers start one agent at once, only one starts it", async () => {
  const spec = specOf(root, "wait");
  const launchers = Array.from({ length: 4 }, () => new ProcessLauncher(systemClock));
  const found = await Promise.all(launchers.map((one) => start(spec, one)));
  expect(new Set(found.map(({ pid }) => pid)).size).toBe(1);
  await found[0]?.stop(0);
  await Promise.all(found.map(({ exited }) => exited));
  await Promise.all(launchers.map((one) => one.close()));
});
