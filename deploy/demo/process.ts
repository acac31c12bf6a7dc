/** Child processes of the demo: what they say, line by line, and how they end. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Said {
  readonly did: string;
  readonly [fact: string]: unknown;
}

export interface Running {
  readonly child: ChildProcess;
  /** Resolves with the code or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals | null>;
}

function ending(child: ChildProcess): Running["ended"] {
  return new Promise((resolve) => child.once("exit", (code, signal) => resolve(signal ?? code)));
}

export function startAgent(args: string[], env: NodeJS.ProcessEnv, onSaid: (said: Said) => void): Running {
  const child = spawn(process.execPath, ["deploy/demo/agent.ts", ...args], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  createInterface({ input: child.stdout }).on("line", (line) => onSaid(JSON.parse(line) as Said));
  return { child, ended: ending(child) };
}

/** Starts the standalone fleet quietly; its log goes to `logFd`. */
export function startFleet(env: NodeJS.ProcessEnv, logFd: number): Running {
  const child = spawn(process.execPath, ["services/standalone/main.ts"], {
    cwd: root,
    env,
    stdio: ["ignore", logFd, logFd],
    // Ctrl-C in the terminal reaches the demo, which then stops the fleet after its agents.
    detached: true,
  });
  return { child, ended: ending(child) };
}
