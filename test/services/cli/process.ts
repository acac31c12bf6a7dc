// Starts the `fleet` command as a process.

import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { projectRoot } from "../../harness/project-root.ts";

export const cli = join(projectRoot, "deploy/local/fleet.mjs");

export interface Result {
  readonly exit: number | null;
  readonly out: string;
  readonly err: string;
}

export interface Call {
  readonly input?: string;
  readonly env?: Record<string, string>;
  /** Called with what a call in this process writes to standard error, as it is written. */
  readonly onError?: (text: string) => void;
}

/** The environment of the tests without its FLEET_ settings. */
export function environment(own: Record<string, string>): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("FLEET_"));
  return { ...Object.fromEntries(inherited), ...own };
}

export function startCli(args: readonly string[], { input, env = {} }: Call): ChildProcess {
  const child = spawn(process.execPath, [cli, ...args], {
    env: environment(env),
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  child.stdin?.end(input);
  return child;
}

/** The output and the exit code of a process. */
export async function resultOf(child: ChildProcess): Promise<Result> {
  const [out, err, exit] = await Promise.all([text(child.stdout!), text(child.stderr!), ended(child)]);
  return { exit, out, err };
}

/** Resolves with the match of `pattern` in the output of the process. Rejects if the process ends first. */
export function printed(child: ChildProcess, pattern: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let seen = "";
    const look = (chunk: Buffer) => {
      seen += chunk;
      const match = pattern.exec(seen);
      if (match !== null) resolve(match);
    };
    child.stdout?.on("data", look);
    child.stderr?.on("data", look);
    child.once("exit", (code) => reject(new Error(`ended with ${code}:\n${seen}`)));
  });
}

export const ended = (child: ChildProcess): Promise<number | null> =>
  new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve(child.exitCode);
    else child.once("exit", (code) => resolve(code));
  });
