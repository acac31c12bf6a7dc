/** Agents in tmux windows: a real tmux server, a program with a real terminal. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { LaunchedAgent, LaunchSpec } from "../../../services/runner/launchers/launcher.ts";
import { pasteable, TmuxLauncher } from "../../../services/runner/launchers/tmux.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { fileOf, processEnded, scratch, specOf } from "./launcher-bench.ts";

const hasTmux = spawnSync("tmux", ["-V"]).status === 0;
if (!hasTmux) console.info("tmux windows: skipped, because there is no tmux");

const tmuxPath = (): string => spawnSync("sh", ["-c", "command -v tmux"]).stdout.toString().trim();
const root = scratch();
const socket = `fleet-${createHash("sha256").update(root).digest("hex").slice(0, 12)}`;
const PROGRAM = join(projectRoot, "test/services/runner/terminal.program.ts");
const PROMPT =
  "Continue with $(touch owned); `touch owned`\n\n'quotes' \"double\" \\ %s #{pane_id}\n\ttab é 🚀\nlast";

test("pasted text cannot end the paste and send keys", () => {
  expect(pasteable("a\u001b[201~rm -rf /\r\nb\tc\u0003")).toBe("a\ufffd[201~rm -rf /\nb\tc\ufffd");
});

describe.runIf(hasTmux)("tmux windows", () => {
  const launcher = new TmuxLauncher(root, systemClock);
  const started: LaunchedAgent[] = [];

  afterEach(async () => {
    await Promise.all(started.splice(0).map((running) => running.stop(0)));
  });
  afterAll(async () => {
    await launcher.close();
    spawnSync("tmux", ["-L", socket, "kill-server"]);
    rmSync(root, { recursive: true, force: true });
  });

  async function start(spec: LaunchSpec, by = launcher): Promise<LaunchedAgent> {
    const running = await by.start(spec);
    started.push(running);
    return running;
  }

  /** A terminal program that ends with `code` once it has its prompt. */
  function terminalSpec(code: string, more: Partial<LaunchSpec> = {}): LaunchSpec {
    const spec = specOf(root, "unused", more);
    writeFileSync(spec.prompt.path, PROMPT);
    return {
      ...spec,
      argv: [process.execPath, PROGRAM, spec.folder, code],
      prompt: { channel: "paste", path: spec.prompt.path },
    };
  }

  test("a prompt is pasted unchanged and submitted although the first Enter is lost, and the exit code is known", async () => {
    const word = "two words $(touch owned) 'x'\nand a line";
    const spec = terminalSpec("9", { env: { PATH: process.env.PATH ?? "", FLEET_TASK: "t-1", WORD: word } });
    const { exited, pid } = await start(spec);
    expect(pid).toBeGreaterThan(1);
    expect(await exited).toMatchObject({ code: 9, signal: null, problem: null, lost: false });
    const report = JSON.parse(await fileOf(spec.folder, "self-report.json"));
    // A terminal has one key for the end of a line.
    expect(report.pasted.replaceAll("\r", "\n")).toBe(PROMPT);
    expect(report.env).toMatchObject({ FLEET_TASK: "t-1", WORD: word });
    expect(existsSync(join(spec.folder, "owned"))).toBe(false);
    expect(readFileSync(join(spec.folder, "output.log"), "utf8")).toContain("working");
  });

  test("a message for a program that asks for a permission gives none", async () => {
    const spec = specOf(root, "unused");
    const message = join(spec.folder, "message");
    const allowed = join(spec.folder, "allowed");
    writeFileSync(message, "[Fleet checkpoint]\n\nWrite a checkpoint.\n");
    const dialog = `process.stdin.setRawMode(true).on("data", (keys) => {
      if (keys.toString().endsWith("\\r")) require("node:fs").writeFileSync(${JSON.stringify(allowed)}, "");
    });
    process.stdout.write("\\u001b[?2004hAllow this command?\\r\\n> 1. Yes\\r\\n  2. No");`;
    const { terminal } = await start({ ...spec, argv: [process.execPath, "-e", dialog] });
    expect(await terminal?.deliver(message)).toBe(false);
    expect(existsSync(allowed)).toBe(false);
  });

  test("a missing command ends with exit code 127, also if it is a single word", async () => {
    const spec = specOf(root, "unused", { argv: ["no-such-agent; touch owned"] });
    expect(await (await start(spec)).exited).toMatchObject({ code: 127 });
    expect(existsSync(join(spec.folder, "owned"))).toBe(false);
  });

  test("the next runner of the folder finds the window and learns its exit", async () => {
    const spec = terminalSpec("stay");
    const first = new TmuxLauncher(root, systemClock);
    const { pid } = await first.start(spec);
    await expect
      .poll(() => readFileSync(join(spec.folder, "window.json"), "utf8"), { timeout: 20_000 })
      .toContain('"prompted":true');
    await first.close();
    expect(launcher.knows(spec.folder)).toBe(true);
    const found = await start(spec);
    expect(found.pid).toBe(pid);
    await found.stop(100);
    await processEnded(pid ?? 0);
    const exit = await found.exited;
    expect(exit.lost).toBe(false);
    expect(["SIGTERM", "SIGKILL"]).toContain(exit.signal);
    expect(await (await start(spec)).exited).toEqual(exit);
  });

  test("an agent that ends before its prompt keeps its own exit", async () => {
    const spec = terminalSpec("unused");
    expect(
      await (await start({ ...spec, argv: ["sh", "-c", "echo hello; sleep 1; exit 6"] })).exited,
    ).toMatchObject({
      code: 6,
      problem: null,
    });
  });

  test("while tmux does not answer, an agent counts as alive", async () => {
    const spec = specOf(root, "wait");
    const running = await start(spec);
    await fileOf(spec.folder, "agent.pid");
    const folder = join(root, "broken");
    const calls = join(folder, "calls");
    mkdirSync(folder);
    const fails = `#!/bin/sh\ncase "$*" in *list-panes*) echo >> ${calls}; echo "lost server" >&2; exit 1;; esac\n`;
    writeFileSync(join(folder, "tmux"), `${fails}exec ${tmuxPath()} "$@"\n`, { mode: 0o755 });
    const { PATH } = process.env;
    process.env.PATH = `${folder}:${PATH}`;
    try {
      await expect
        .poll(() => existsSync(calls) && statSync(calls).size, { timeout: 20_000 })
        .toBeGreaterThan(2);
    } finally {
      process.env.PATH = PATH;
    }
    process.kill(running.pid ?? 0, "SIGKILL");
    expect(await running.exited).toMatchObject({ signal: "SIGKILL", lost: false });
  });

  test("a window that was closed is an agent with an unknown exit", async () => {
    const spec = specOf(root, "wait");
    const { exited, pid } = await start(spec);
    await fileOf(spec.folder, "agent.pid");
    spawnSync("tmux", ["-L", socket, "kill-window", "-t", `agents:${spec.name}`]);
    expect(await exited).toMatchObject({ lost: true });
    await processEnded(pid ?? 0);
  });
});
