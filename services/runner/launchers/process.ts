/**
 * Agents as child processes. Each has an attendant, a small process that outlives the runner; what both of them did is read from the
 * agent's folder, so a runner that was started again needs nothing else to go on watching.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Clock, createWake, type Wake } from "../../../shared/runtime/clock.ts";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { readJson, writeWhole } from "../files.ts";
import { type AgentNote, agentFiles, type LaunchNote, type ProcessNote, readExit } from "./agent-folder.ts";
import { type Exit, failedToStart, type LaunchedAgent, type Launcher, type LaunchSpec } from "./launcher.ts";
import { signalGroup } from "./process-group.ts";

const ATTENDANT = fileURLToPath(new URL("./agent-shim.ts", import.meta.url));
const LOOK_MS = 500;
const SOON_MS = 20;
/** For an attendant to come up on a machine that is busy. */
const BEGIN_MS = 20_000;
/** After SIGKILL; a process that hangs in the system itself cannot be waited for. */
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
      if (problem !== null) return ended(failedToStart(problem, new Date(this.#clock.now()).toISOString()));
      this.#attend(spec, wake);
    }
    const agent = await this.#begun(spec.folder);
    const exited = this.#watch(spec.folder, wake);
    return {
      pid: agent?.pid ?? null,
      exited,
      stop: (graceMs) => this.#stop(agent, exited, graceMs),
    };
  }

  knows(folder: string): boolean {
    return readJson(agentFiles(folder).attendant) !== undefined;
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  #attend(spec: LaunchSpec, wake: Wake): void {
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
    const errors = openSync(files.attendantLog, "a", 0o600);
    const attendant: ChildProcess = spawn(process.execPath, [ATTENDANT, spec.folder], {
      env,
      stdio: ["ignore", "ignore", errors],
      detached: true,
    });
    closeSync(errors);
    attendant.unref();
    attendant.once("exit", () => wake.notify());
    attendant.once("error", () => wake.notify());
  }

  /** Until the agent runs or cannot; undefined when it has no process. */
  async #begun(folder: string): Promise<AgentNote | undefined> {
    const files = agentFiles(folder);
    const patience = this.#clock.monotonic() + BEGIN_MS;
    for (;;) {
      const agent = readJson<AgentNote>(files.agent);
      if (agent !== undefined || readExit(folder) !== undefined) return agent;
      const attendant = readJson<ProcessNote>(files.attendant);
      // Without an attendant nothing was started, and nothing will be unless it comes now.
      if (attendant === undefined && this.#clock.monotonic() > patience)
        throw new Error("the attendant did not start; see attendant.log in the agent's folder");
      if (attendant !== undefined && !lives(attendant)) return readJson<AgentNote>(files.agent);
      await this.#clock.sleep(SOON_MS);
    }
  }

  async #watch(folder: string, wake: Wake): Promise<Exit> {
    const { signal } = this.#closing;
    const files = agentFiles(folder);
    for (;;) {
      const attendant = readJson<ProcessNote>(files.attendant);
      const alive = attendant !== undefined && lives(attendant);
      // Read after the look at the attendant: it writes before it ends.
      const exit = readExit(folder);
      if (exit !== undefined) return exit;
      if (!alive) return this.#lost(folder);
      await this.#clock.wait(LOOK_MS, wake, signal);
      if (signal.aborted) return new Promise(() => {});
    }
  }

  /** Its output leads nowhere now, and nobody would ever learn how it ended: it is over. */
  #lost(folder: string): Exit {
    const agent = readJson<AgentNote>(agentFiles(folder).agent);
    if (agent !== undefined && lives(agent)) signalGroup(agent.pid, "SIGKILL");
    const endedAt = new Date(this.#clock.now()).toISOString();
    const startedAt = agent?.startedAt ?? endedAt;
    const exit: Exit = { ...failedToStart("", endedAt), problem: null, lost: true, startedAt };
    writeWhole(agentFiles(folder).exit, JSON.stringify(exit));
    return exit;
  }

  async #stop(agent: AgentNote | undefined, exited: Promise<Exit>, graceMs: number): Promise<void> {
    if (agent === undefined || !lives(agent)) return void (await this.#within(exited, KILLED_MS));
    signalGroup(agent.pid, "SIGTERM");
    if (await this.#within(exited, graceMs)) return;
    if (lives(agent)) signalGroup(agent.pid, "SIGKILL");
    await this.#within(exited, KILLED_MS);
  }

  async #within(exited: Promise<Exit>, ms: number): Promise<boolean> {
    const over = new AbortController();
    const late = this.#clock.sleep(ms, over.signal).then(() => false);
    const inTime = await Promise.race([exited.then(() => true), late]);
    over.abort();
    return inTime;
  }
}

/** What would make the system say that the program is missing when it is something else. */
function problemOf({ argv, cwd }: LaunchSpec): string | null {
  if (argv.length === 0 || argv[0] === "") return "no command";
  try {
    return statSync(cwd).isDirectory() ? null : `the working folder ${cwd} is no folder`;
  } catch {
    return `the working folder ${cwd} does not exist`;
  }
}

function ended(exit: Exit): LaunchedAgent {
  return { pid: null, exited: Promise.resolve(exit), stop: async () => {} };
}

const lives = ({ pid, mark }: ProcessNote): boolean => mark !== "" && processMark(pid) === mark;
