/**
 * The parent process of one agent, which survives a restart of the runner: it keeps the agent's output, ends the processes that the agent
 * leaves behind, and records how the agent ended. The system reports that only to the parent, so the parent must not restart.
 *
 * If several shims are started for one agent, only the first starts it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { readJson, writeOnce, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { type AgentNote, agentFiles, type LaunchNote } from "./agent-folder.ts";
import { type Exit, failedToStart } from "./launcher.ts";
import { memoryKills } from "./oom-kills.ts";
import { OutputLog } from "./output-log.ts";
import { signalGroup } from "./process-group.ts";
import { startProblem } from "./start-problem.ts";

/** The time in which leftover processes may end by themselves. */
const LEFTOVER_MS = 1_000;
const POLL_MS = 20;
const MEMORY_POLL_MS = 5_000;

const folder = process.argv[2] ?? "";
const files = agentFiles(folder);
// The shim ends only after the agent. These signals are sent to the whole terminal or to the runner's group.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

const own = { pid: process.pid, mark: processMark(process.pid) ?? "" };
if (writeOnce(files.shim, JSON.stringify(own))) {
  const launch = readJson<LaunchNote>(files.launch);
  if (launch === undefined) throw new Error("the agent's folder has no launch.json");
  writeWhole(files.exit, JSON.stringify(await runAgentProcess(launch)));
}
// A process that left the agent's group may keep the output open forever.
process.exit();

async function runAgentProcess(launch: LaunchNote): Promise<Exit> {
  const output = new OutputLog(files.output, launch.logBytes);
  const startedAt = new Date().toISOString();
  const spawned = spawnAgent(launch);
  if ("problem" in spawned) return failedToStart(spawned.problem, startedAt);
  const { child } = spawned;
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Uint8Array) => output.write(chunk));
  const ended = endOf(child, launch.argv);
  if (child.pid === undefined) return failedToStart((await ended).problem ?? "unknown", startedAt);
  const pid = child.pid;
  const note: AgentNote = { pid, mark: processMark(pid) ?? "", startedAt };
  writeWhole(files.agent, JSON.stringify(note));
  const memory = watchMemory();
  const { code, signal, problem } = await ended;
  const outOfMemory = memory.killed();
  const endedAt = new Date().toISOString();
  await endGroup(pid);
  output.close();
  return { code, signal, problem, outOfMemory, lost: false, startedAt, endedAt };
}

function spawnAgent({
  argv,
  cwd,
  stdin,
  lateEnv,
}: LaunchNote): { child: ChildProcess } | { problem: string } {
  const [program = "", ...args] = argv;
  let input: number | undefined;
  try {
    input = stdin === null ? undefined : openSync(stdin, "r");
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, ...lateEnv },
      stdio: [input ?? "ignore", "pipe", "pipe"],
      // A group of its own, so that the agent's child processes can be ended with it.
      detached: true,
    });
    return { child };
  } catch (error) {
    return { problem: startProblem(error as Error, argv) };
  } finally {
    if (input !== undefined) closeSync(input);
  }
}

function endOf(
  child: ChildProcess,
  argv: readonly string[],
): Promise<Pick<Exit, "code" | "signal" | "problem">> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal, problem: null }));
    child.once("error", (error) => resolve({ code: null, signal: null, problem: startProblem(error, argv) }));
  });
}

/** The count is refreshed every few seconds, so that an earlier kill does not explain this exit. */
function watchMemory(): { killed(): boolean } {
  let before = memoryKills();
  const timer = setInterval(() => {
    before = memoryKills();
  }, MEMORY_POLL_MS);
  return {
    killed() {
      clearInterval(timer);
      const now = memoryKills();
      return before !== null && now !== null && now > before;
    },
  };
}

async function endGroup(group: number): Promise<void> {
  const end = performance.now() + LEFTOVER_MS;
  for (let left = signalGroup(group, "SIGTERM"); left; left = signalGroup(group, 0)) {
    if (performance.now() > end) {
      signalGroup(group, "SIGKILL");
      return;
    }
    await sleep(POLL_MS);
  }
}
