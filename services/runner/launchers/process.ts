/**
 * Agents as child processes. Each has a shim, a small parent process that outlives the runner. The launcher reads the state of both from
 * the agent's folder, so a restarted runner resumes watching with nothing else.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Clock, createWake, type Wake } from "../../../shared/runtime/clock.ts";
import { programUrl } from "../../../shared/runtime/process/installation.ts";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { readJson, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { type AgentNote, agentFiles, type LaunchNote, type ProcessNote, readExit } from "./agent-folder.ts";
import { type Exit, failedToStart, type LaunchedAgent, type Launcher, type LaunchSpec } from "./launcher.ts";
import { signalGroup } from "./process-group.ts";

const SHIM = fileURLToPath(programUrl("./agent-shim.ts", import.meta.url));
const POLL_MS = 500;
const START_POLL_MS = 20;
/** The time for a shim to start on a busy machine. */
const SHIM_START_MS = 20_000;
/** The wait after SIGKILL. A process that hangs in a system call may never end. */
const KILLED_MS = 5_000;

export class ProcessLauncher implements Launcher {
  readonly #clock: Clock;
  readonly #closing = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async start(spec: LaunchSpec): Promise<LaunchedAgent> {
    const wake = createWake();
    if (!this.knows(spec.folder)) {
      const problem = problemOf(spec);
      if (problem !== null)
        return endedAgent(failedToStart(problem, new Date(this.#clock.now()).toISOString()));
      this.#startShim(spec, wake);
    }
    const agent = await this.#started(spec.folder);
    const exited = this.#watch(spec.folder, wake);
    return {
      pid: agent?.pid ?? null,
      isStarted: agent !== undefined,
      exited,
      stop: (graceMs) => this.#stop(agent, exited, graceMs),
    };
  }

  knows(folder: string): boolean {
    return readJson(agentFiles(folder).shim) !== undefined;
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  #startShim(spec: LaunchSpec, wake: Wake): void {
    const files = agentFiles(spec.folder);
    const { NODE_OPTIONS, ...env } = spec.env;
    const launch: LaunchNote = {
      argv: spec.argv,
      cwd: spec.cwd,
      stdin: spec.prompt.channel === "stdin" ? spec.prompt.path : null,
      logBytes: spec.logBytes,
      lateEnv: NODE_OPTIONS === undefined ? {} : { NODE_OPTIONS },
    };
    mkdirSync(spec.folder, { recursive: true, mode: 0o700 });
    writeWhole(files.launch, JSON.stringify(launch));
    const errors = openSync(files.shimLog, "a", 0o600);
    const shim: ChildProcess = spawn(process.execPath, [SHIM, spec.folder], {
      env,
      stdio: ["ignore", "ignore", errors],
      detached: true,
    });
    closeSync(errors);
    shim.unref();
    shim.once("exit", () => wake.notify());
    shim.once("error", () => wake.notify());
  }

  /** Waits until the agent runs or cannot be started; undefined if it has no process. */
  async #started(folder: string): Promise<AgentNote | undefined> {
    const files = agentFiles(folder);
    const deadline = this.#clock.monotonic() + SHIM_START_MS;
    for (;;) {
      const agent = readJson<AgentNote>(files.agent);
      if (agent !== undefined || readExit(folder) !== undefined) return agent;
      const shim = readJson<ProcessNote>(files.shim);
      // Without a shim no agent was started.
      if (shim === undefined && this.#clock.monotonic() > deadline)
        throw new Error("the agent's parent process did not start; see attendant.log in the agent's folder");
      if (shim !== undefined && !isAlive(shim)) return readJson<AgentNote>(files.agent);
      await this.#clock.sleep(START_POLL_MS);
    }
  }

  async #watch(folder: string, wake: Wake): Promise<Exit> {
    const { signal } = this.#closing;
    const files = agentFiles(folder);
    for (;;) {
      const shim = readJson<ProcessNote>(files.shim);
      const alive = shim !== undefined && isAlive(shim);
      // Read after the check of the shim, which writes before it ends.
      const exit = readExit(folder);
      if (exit !== undefined) return exit;
      if (!alive) return this.#lost(folder);
      await this.#clock.wait(POLL_MS, wake, signal);
      if (signal.aborted) return new Promise(() => {});
    }
  }

  /** Without its shim the agent has no output and no recorded exit, so it is killed. */
  #lost(folder: string): Exit {
    const agent = readJson<AgentNote>(agentFiles(folder).agent);
    if (agent !== undefined && isAlive(agent)) signalGroup(agent.pid, "SIGKILL");
    const endedAt = new Date(this.#clock.now()).toISOString();
    const startedAt = agent?.startedAt ?? endedAt;
    const exit: Exit = { ...failedToStart("", endedAt), problem: null, lost: true, startedAt };
    writeWhole(agentFiles(folder).exit, JSON.stringify(exit));
    return exit;
  }

  async #stop(agent: AgentNote | undefined, exited: Promise<Exit>, graceMs: number): Promise<void> {
    if (agent === undefined || !isAlive(agent)) return void (await this.#within(exited, KILLED_MS));
    signalGroup(agent.pid, "SIGTERM");
    if (await this.#within(exited, graceMs)) return;
    if (isAlive(agent)) signalGroup(agent.pid, "SIGKILL");
    await this.#within(exited, KILLED_MS);
  }

  async #within(exited: Promise<Exit>, ms: number): Promise<boolean> {
    const timeout = new AbortController();
    const late = this.#clock.sleep(ms, timeout.signal).then(() => false);
    const inTime = await Promise.race([exited.then(() => true), late]);
    timeout.abort();
    return inTime;
  }
}

/** Problems that the system would report as a missing program. */
function problemOf({ argv, cwd }: LaunchSpec): string | null {
  if (argv.length === 0 || argv[0] === "") return "no command";
  try {
    return statSync(cwd).isDirectory() ? null : `the working folder ${cwd} is not a folder`;
  } catch {
    return `the working folder ${cwd} does not exist`;
  }
}

function endedAgent(exit: Exit): LaunchedAgent {
  return { pid: null, isStarted: false, exited: Promise.resolve(exit), stop: async () => {} };
}

const isAlive = ({ pid, mark }: ProcessNote): boolean => mark !== "" && processMark(pid) === mark;
