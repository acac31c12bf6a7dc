/** Real hook processes of an agent program, and the helper that the first of them starts. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { HookVendorName } from "../../../shared/sdk/hooks/vendors.ts";
import { projectRoot } from "../../harness/project-root.ts";

export interface HookRun {
  readonly exit: number | null;
  readonly out: string;
  readonly err: string;
}

export interface TestHooks {
  readonly folder: string;
  /** Runs the hook as the agent program would. */
  run(event: string, payload: object | string, env?: Record<string, string>): Promise<HookRun>;
  /** Keeps an event as a hook process did at an earlier time, while no helper ran or the fleet was away. */
  keep(event: string, payload: object, secondsAgo: number, env?: Record<string, string>): void;
  /** The lines of the log. */
  log(): Record<string, unknown>[];
  /** Resolves when every event is with the fleet. */
  drained(): Promise<void>;
  /** Sends SIGKILL to the helpers that were started so far. */
  killHelpers(): void;
  /** Resolves when none of the helpers that were killed is still ending: a hook of the shell leaves its event to it. */
  killedEnded(): Promise<void>;
  stop(): void;
}

/** As the settings of an agent program call it. */
const FLEET = ["/bin/sh", join(projectRoot, "deploy", "hook", "fleet.sh")];
const DEADLINE_MS = 20_000;

/** `base`: the environment of the agent program, with the address of the fleet. `fleet`: the words of the call. */
export function openHooks(
  vendor: HookVendorName,
  base: Record<string, string>,
  [program = "", ...args]: readonly string[] = FLEET,
): TestHooks {
  const folder = mkdtempSync(join(tmpdir(), "fleet-hooks-"));
  const inbox = join(folder, "inbox");
  const agentEnv = { ...base, FLEET_HOOK_DIR: folder, FLEET_HOOK_WAIT: String(DEADLINE_MS) };
  let kept = 0;
  const killed = new Set<number>();

  const log = () => {
    try {
      const text = readFileSync(join(folder, "hook.log"), "utf8");
      return text
        .split("\n")
        .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Record<string, unknown>]));
    } catch {
      return [];
    }
  };
  const hooks: TestHooks = {
    folder,
    async run(event, payload, env = {}) {
      const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("FLEET_"));
      const child = spawn(program, [...args, "hook", vendor, event], {
        env: { ...Object.fromEntries(inherited), ...agentEnv, ...env },
        stdio: ["pipe", "pipe", "pipe"],
      });
      const [out, err] = [child.stdout, child.stderr].map(async (stream) => {
        let text = "";
        for await (const part of stream.setEncoding("utf8")) text += part;
        return text;
      }) as [Promise<string>, Promise<string>];
      child.stdin.end(typeof payload === "string" ? payload : JSON.stringify(payload));
      const [exit] = (await once(child, "exit")) as [number | null];
      return { exit, out: await out, err: await err };
    },
    keep(event, payload, secondsAgo, env = {}) {
      mkdirSync(inbox, { recursive: true });
      const at = Date.now() - secondsAgo * 1_000;
      kept += 1;
      const variables = Object.entries({ ...base, ...env }).filter(([name]) => name.startsWith("FLEET_"));
      const fields = Object.entries({ vendor, event, at, wait: 0, cwd: folder });
      const lines = [...fields, ...variables].map((field) => field.join("="));
      const path = join(inbox, `${String(at).padStart(14, "0")}-${kept}.event`);
      writeFileSync(`${path}.part`, [...lines, "", JSON.stringify(payload)].join("\n"));
      renameSync(`${path}.part`, path);
    },
    log,
    drained: () => expect.poll(() => readdirSync(inbox), { timeout: DEADLINE_MS }).toEqual([]),
    killHelpers() {
      for (const { pid } of log()) killed.add(Number(pid));
      killAll([...killed]);
    },
    killedEnded: () => expect.poll(() => [...killed].filter(isRunning), { timeout: DEADLINE_MS }).toEqual([]),
    stop() {
      hooks.killHelpers();
      killAll(processesOf(folder));
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return hooks;
}

/** False for a process that has ended and whose parent does not ask: on Linux it is still there. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" && !existsSync("/proc/self/stat");
  }
}

/** On Linux also a helper that is still starting: it would make the removed folder again. */
function processesOf(folder: string): number[] {
  const names = existsSync("/proc/self/environ") ? readdirSync("/proc") : [];
  return names
    .filter((name) => /^\d+$/.test(name) && variablesOf(name).includes(`FLEET_HOOK_DIR=${folder}`))
    .map(Number);
}

function variablesOf(pid: string): string[] {
  try {
    return readFileSync(join("/proc", pid, "environ"), "utf8").split("\0");
  } catch {
    return [];
  }
}

function killAll(pids: readonly number[]): void {
  for (const pid of new Set(pids)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
}
