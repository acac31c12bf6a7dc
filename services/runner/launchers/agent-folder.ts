/** The files in an agent's folder from which its launcher learns the agent's state. */
import { join } from "node:path";
import { readJson } from "../../../shared/runtime/process/whole-file.ts";
import type { Exit } from "./launcher.ts";

export interface ProcessNote {
  readonly pid: number;
  /** Distinguishes the process from a later one with the same id. */
  readonly mark: string;
}

export interface AgentNote extends ProcessNote {
  readonly startedAt: string;
}

/** The input of the shim, besides its environment. */
export interface LaunchNote {
  readonly argv: readonly string[];
  readonly cwd: string;
  /** The file for the agent's standard input. */
  readonly stdin: string | null;
  readonly logBytes: number;
  /** Variables that configure Node itself; they are meant for the agent and not for the shim. */
  readonly lateEnv: Readonly<Record<string, string>>;
}

// The shim's files are called attendant.*, because a runner must find the agents that an earlier version started.
export const agentFiles = (folder: string) => ({
  launch: join(folder, "launch.json"),
  shim: join(folder, "attendant.json"),
  shimLog: join(folder, "attendant.log"),
  agent: join(folder, "process.json"),
  exit: join(folder, "exit.json"),
  output: join(folder, "output.log"),
  window: join(folder, "window.json"),
  paste: join(folder, "paste.txt"),
  job: join(folder, "job.json"),
});

export const readExit = (folder: string): Exit | undefined => readJson<Exit>(agentFiles(folder).exit);
