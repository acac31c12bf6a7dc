// The bench of the launchers' tests: a folder for one agent, the fake agent, and waiting for the files that it writes.

import { existsSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { LaunchSpec } from "../../../services/runner/launchers/launcher.ts";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { projectRoot } from "../../harness/project-root.ts";

export const PROGRAM = join(projectRoot, "test/services/runner/agent.program.ts");

export function scratch(): string {
  return mkdtempSync(join(tmpdir(), "fleet-runner-"));
}

let counter = 0;

/** A launch specification for the fake agent with one of its behaviours, in its own folder below `root`. */
export function specOf(root: string, behaviour: string, more: Partial<LaunchSpec> = {}): LaunchSpec {
  counter += 1;
  const folder = join(root, `agent-${counter}`);
  mkdirSync(folder, { recursive: true });
  return {
    name: `agent-${process.pid}-${counter}`,
    agentType: "qa",
    folder,
    argv: [process.execPath, PROGRAM, behaviour, folder],
    env: { PATH: process.env.PATH ?? "" },
    cwd: folder,
    prompt: { channel: "file", path: join(folder, "prompt.md") },
    logBytes: 64 * 1_024,
    ...more,
  };
}

/** Resolves with the content of a file once the agent has written it. */
export async function fileOf(folder: string, name: string): Promise<string> {
  const path = join(folder, name);
  while (!existsSync(path)) await sleep(10);
  return readFileSync(path, "utf8");
}

/** Resolves when the process has ended. */
export async function processEnded(pid: number): Promise<void> {
  while (processMark(pid) !== undefined) await sleep(10);
}
