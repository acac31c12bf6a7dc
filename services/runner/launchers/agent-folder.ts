/** The files of one agent's folder that tell its launcher what became of it. */
import { join } from "node:path";
import { readJson } from "../files.ts";
import type { Exit } from "./launcher.ts";

export interface ProcessNote {
  readonly pid: number;
  /** Tells it from a later process with the same id. */
  readonly mark: string;
}

export interface AgentNote extends ProcessNote {
  readonly startedAt: string;
}

/** What the attendant is told; the environment is its own. */
export interface LaunchNote {
  readonly argv: readonly string[];
  readonly cwd: string;
  /** File to be the agent's standard input. */
  readonly stdin: string | null;
  readonly logBytes: number;
  /** Settings of Node itself, which are meant for the agent and not for the attendant. */
  readonly lateEnv: Readonly<Record<string, string>>;
}

export const agentFiles = (folder: string) => ({
  launch: join(folder, "launch.json"),
  attendant: join(folder, "attendant.json"),
  attendantLog: join(folder, "attendant.log"),
  agent: join(folder, "process.json"),
  exit: join(folder, "exit.json"),
  output: join(folder, "output.log"),
  window: join(folder, "window.json"),
  paste: join(folder, "paste.txt"),
  job: join(folder, "job.json"),
});

export const readExit = (folder: string): Exit | undefined => readJson<Exit>(agentFiles(folder).exit);
