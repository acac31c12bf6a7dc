/** The demo's processes: the messages of its agents, one per line, and their exits. None of them outlives the demo. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A message of an agent to the demo. */
export interface AgentMessage {
  readonly agent: string;
  readonly did: string;
  readonly [fact: string]: unknown;
}

export interface DemoProcess {
  readonly child: ChildProcess;
  /** Resolves with the exit code or the signal. */
  readonly ended: Promise<number | NodeJS.Signals | null>;
}

const agents = new Set<ChildProcess>();

function exitOf(child: ChildProcess): DemoProcess["ended"] {
  return new Promise((resolve) => child.once("exit", (code, signal) => resolve(signal ?? code)));
}

export function startAgent(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  onMessage: (message: AgentMessage) => void,
): DemoProcess {
  const child = spawn(process.execPath, [program, ...args], {
    cwd: root,
    env,
    stdio: ["pipe", "pipe", "inherit"],
  });
  // An agent that has ended no longer reads its input.
  child.stdin.on("error", () => {});
  createInterface({ input: child.stdout }).on("line", (line) => onMessage(JSON.parse(line) as AgentMessage));
  agents.add(child);
  child.once("exit", () => agents.delete(child));
  return { child, ended: exitOf(child) };
}

/** Ends all agents, including frozen ones. */
export function killAgents(): void {
  for (const child of agents) child.kill("SIGKILL");
}

/** Starts the standalone fleet with its log in `logFd`. */
export function startFleet(env: NodeJS.ProcessEnv, logFd: number): DemoProcess {
  const child = spawn(process.execPath, ["services/standalone/main.ts"], {
    cwd: root,
    env,
    stdio: ["ignore", logFd, logFd],
    // Ctrl-C in the terminal reaches only the demo, which stops the fleet after its agents.
    detached: true,
  });
  return { child, ended: exitOf(child) };
}

/** True once the system has stopped the process; SIGSTOP takes effect with a delay. */
export function isFrozen({ pid }: ChildProcess): boolean {
  const state = existsSync(`/proc/${pid}/stat`)
    ? readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "")
    : execFileSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" });
  return state.startsWith("T");
}

/** The agent's side: sends messages to the demo, one JSON object per line. */
export function reporter(agent: string): (did: string, facts?: Record<string, unknown>) => void {
  // The demo may have ended; the agent continues its work.
  process.stdout.on("error", () => {});
  return (did, facts) => process.stdout.write(`${JSON.stringify({ agent, did, ...facts })}\n`);
}
