// Hooks: how long an agent's program waits for a hook, from the start of its process to its end, with the fleet up, hanging and down.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../../harness/project-root.ts";
import { percentile } from "../measure/percentiles.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { Session } from "../session.ts";

const FLEET = join(projectRoot, "deploy", "hook", "fleet.sh");
const RUNS = 100;
const QUICK_RUNS = 10;
const WARM_UP_RUNS = 5;
const SESSION = { session_id: "bench-session", transcript_path: "" };

const TOOL = { tool_name: "Edit", tool_input: { file_path: "login.ts" }, tool_response: {} };
const STOP = { stop_hook_active: false, last_assistant_message: "Done." };

export async function measureHooks(session: Session): Promise<Group> {
  session.log("hooks: starting a fleet");
  const fleet = await session.fleet(session.folder());
  const runs = session.options.quick ? QUICK_RUNS : RUNS;
  const hooks = new Hooks(fleet.busUrl, session.folder());
  try {
    await hooks.time(WARM_UP_RUNS, "SessionStart", { source: "startup" });
    const node = await hooks.timeNode(runs);
    const tool = await hooks.time(runs, "PostToolUse", TOOL);
    const stop = await hooks.time(runs, "Stop", STOP);
    const context = await hooks.time(runs, "SessionStart", { source: "compact" });
    session.log("hooks: the fleet hangs");
    const processes = [fleet.pid, ...(fleet.natsServerPid === null ? [] : [fleet.natsServerPid])];
    for (const pid of processes) process.kill(pid, "SIGSTOP");
    await hooks.time(WARM_UP_RUNS, "Stop", STOP);
    const hanging = await hooks.time(runs, "Stop", STOP);
    for (const pid of processes) process.kill(pid, "SIGCONT");
    session.log("hooks: the fleet is down");
    await fleet.stop();
    await hooks.time(WARM_UP_RUNS, "Stop", STOP);
    const down = await hooks.time(runs, "Stop", STOP);
    return {
      name: "hooks",
      about: `${runs} hook processes of each kind, one after the other`,
      rows: [
        row("start and end of Node alone, p50", node.p50, "ms"),
        row("after a tool, p95", tool.p95, "ms", TARGETS.hook),
        row("end of a turn, p95", stop.p95, "ms", TARGETS.hook),
        row("session start with a continuation prompt, p95", context.p95, "ms", TARGETS.hook),
        row("end of a turn while the fleet hangs, p95", hanging.p95, "ms", TARGETS.hook_outage),
        row("end of a turn while the fleet is down, p95", down.p95, "ms", TARGETS.hook_outage),
      ],
    };
  } finally {
    hooks.stop();
  }
}

interface HookTimes {
  readonly p50: number;
  readonly p95: number;
}

class Hooks {
  readonly #folder: string;
  readonly #env: NodeJS.ProcessEnv;

  constructor(url: string, folder: string) {
    this.#folder = folder;
    const agent = { FLEET_AGENT_ID: "bench-agent", FLEET_TASK: "bench-hooks" };
    this.#env = { ...process.env, FLEET_URL: url, FLEET_HOOK_DIR: folder, ...agent };
  }

  async time(runs: number, event: string, payload: object): Promise<HookTimes> {
    const input = JSON.stringify({ ...SESSION, cwd: this.#folder, hook_event_name: event, ...payload });
    return this.#time(runs, "/bin/sh", [FLEET, "hook", "claude-code", event], input);
  }

  timeNode(runs: number): Promise<HookTimes> {
    return this.#time(runs, process.execPath, ["-e", "0"], "");
  }

  /** The helper has no terminal and outlives its agents. */
  stop(): void {
    const log = readFileSync(join(this.#folder, "hook.log"), "utf8");
    for (const pid of new Set(log.match(/(?<="pid":)\d+/g))) {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  }

  async #time(runs: number, program: string, args: readonly string[], input: string): Promise<HookTimes> {
    const times: number[] = [];
    for (let n = 0; n < runs; n += 1) {
      const begin = performance.now();
      const child = spawn(program, args, { stdio: ["pipe", "ignore", "inherit"], env: this.#env });
      child.stdin.end(input);
      const [code] = (await once(child, "exit")) as [number | null];
      if (code !== 0) throw new Error(`a hook ended with ${code}`);
      times.push(performance.now() - begin);
    }
    times.sort((a, b) => a - b);
    return { p50: percentile(times, 0.5), p95: percentile(times, 0.95) };
  }
}
