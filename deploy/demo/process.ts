/** The demo's processes: what its agents say, line by line, how they end, and that none of them is left behind. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Said {
  readonly agent: string;
  readonly did: string;
  readonly [fact: string]: unknown;
}

export interface Running {
  readonly child: ChildProcess;
  /** Resolves with the code or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals | null>;
}

const agents = new Set<ChildProcess>();

function ending(child: ChildProcess): Running["ended"] {
  return new Promise((resolve) => child.once("exit", (code, signal) => resolve(signal ?? code)));
}

export function startAgent(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  onSaid: (said: Said) => void,
): Running {
  const child = spawn(process.execPath, [program, ...args], {
    cwd: root,
    env,
    stdio: ["pipe", "pipe", "inherit"],
  });
  // It need not hear what it is told.
  child.stdin.on("error", () => {});
  createInterface({ input: child.stdout }).on("line", (line) => onSaid(JSON.parse(line) as Said));
  agents.add(child);
  child.once("exit", () => agents.delete(child));
  return { child, ended: ending(child) };
}

/** Also those that are frozen. */
export function killAgents(): void {
  for (const child of agents) child.kill("SIGKILL");
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

/** Whether the system has stopped a process: what SIGSTOP asks for is not done at once. */
export function isFrozen({ pid }: ChildProcess): boolean {
  const state = existsSync(`/proc/${pid}/stat`)
    ? readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "")
    : execFileSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" });
  return state.startsWith("T");
}

/** An agent's side: tells the demo what it does, one JSON message a line. */
export function teller(agent: string): (did: string, facts?: Record<string, unknown>) => void {
  // The demo may be gone; the work goes on.
  process.stdout.on("error", () => {});
  return (did, facts) => process.stdout.write(`${JSON.stringify({ agent, did, ...facts })}\n`);
}
