/**
 * Stays with one agent from its start to its end, whatever becomes of the runner: keeps what it prints, ends what it leaves behind, and
 * writes down how it ended. Only the parent of a process is told that, so it must be one that nobody restarts.
 *
 * Of all that are started for one agent, one gets to start it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { readJson, writeOnce, writeWhole } from "../files.ts";
import { type AgentNote, agentFiles, type LaunchNote } from "./agent-folder.ts";
import { type Exit, failedToStart } from "./launcher.ts";
import { memoryKills } from "./oom-kills.ts";
import { OutputLog } from "./output-log.ts";
import { signalGroup } from "./process-group.ts";

/** For what the agent left behind to end by itself. */
const LEFTOVER_MS = 1_000;
const LOOK_MS = 20;
const MEMORY_LOOK_MS = 5_000;

const folder = process.argv[2] ?? "";
const files = agentFiles(folder);
// It ends when the agent has ended, and not before: these are sent to the whole terminal, or to the runner's group.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

const own = { pid: process.pid, mark: processMark(process.pid) ?? "" };
if (writeOnce(files.attendant, JSON.stringify(own))) {
  const launch = readJson<LaunchNote>(files.launch);
  if (launch === undefined) throw new Error("the folder says nothing about what to start");
  writeWhole(files.exit, JSON.stringify(await attend(launch)));
}
// A process that left the agent's group may hold its output for ever.
process.exit();

async function attend(launch: LaunchNote): Promise<Exit> {
  const output = new OutputLog(files.output, launch.logBytes);
  const startedAt = new Date().toISOString();
  const begun = begin(launch);
  if ("problem" in begun) return failedToStart(begun.problem, startedAt);
  const { child } = begun;
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Uint8Array) => output.write(chunk));
  const ended = endOf(child);
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

function begin({ argv, cwd, stdin, lateEnv }: LaunchNote): { child: ChildProcess } | { problem: string } {
  const [program = "", ...args] = argv;
  let input: number | undefined;
  try {
    input = stdin === null ? undefined : openSync(stdin, "r");
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, ...lateEnv },
      stdio: [input ?? "ignore", "pipe", "pipe"],
      // A group of its own: whatever the agent starts can be ended with it.
      detached: true,
    });
    return { child };
  } catch (error) {
    return { problem: (error as Error).message };
  } finally {
    if (input !== undefined) closeSync(input);
  }
}

function endOf(child: ChildProcess): Promise<Pick<Exit, "code" | "signal" | "problem">> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal, problem: null }));
    child.once("error", (error) => resolve({ code: null, signal: null, problem: error.message }));
  });
}

/** Kills are counted anew every few seconds, so that one of long ago does not explain this end. */
function watchMemory(): { killed(): boolean } {
  let before = memoryKills();
  const looking = setInterval(() => {
    before = memoryKills();
  }, MEMORY_LOOK_MS);
  return {
    killed() {
      clearInterval(looking);
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
    await sleep(LOOK_MS);
  }
}
