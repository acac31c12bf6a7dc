/**
 * The contract of launchers, which start, watch and stop agents in a child process, a tmux window or a Kubernetes Job. A launcher finds a
 * running agent by its name and its folder, so a restarted runner finds the agents of the killed one.
 */

import type { PROMPT_CHANNELS } from "../../../shared/protocol/runner-settings.ts";

export type PromptChannel = (typeof PROMPT_CHANNELS)[number];

/** Files on the runner's machine with which an agent connects to the bus. The runner renews the credentials while the agent runs. */
export interface AgentAccess {
  readonly credentials: string;
  /** The certificates that may sign the bus's own. undefined: those of the system. */
  readonly ca?: string | undefined;
}

/** The specification of one agent. A second start with the same specification finds the running agent. */
export interface LaunchSpec {
  /** The id of the agent, which is never reused. */
  readonly name: string;
  readonly agentType: string;
  /** The folder of this agent. Absolute. */
  readonly folder: string;
  /** Program and arguments, passed to the agent unchanged and without a shell. */
  readonly argv: readonly string[];
  /** Program and arguments with which a stopped agent continues its own session. Default: those of its start. */
  readonly resumeArgv?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly prompt: { readonly channel: PromptChannel; readonly path: string };
  /** undefined: the runner has no credentials for the agent. */
  readonly access?: AgentAccess | undefined;
  /** The limit of kept output; the newest bytes are kept. */
  readonly logBytes: number;
}

/** The end of an agent, as far as the system reports it. */
export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
  /** The reason why the agent could not be started, in words: `the program ./agent was not found`. */
  readonly problem: string | null;
  /** True if the system killed a process for lack of memory just before. */
  readonly outOfMemory: boolean;
  /** True if the watching process ended as well, so the exit is unknown. */
  readonly lost: boolean;
  readonly startedAt: string;
  readonly endedAt: string;
}

/** The window of an agent. */
export interface AgentTerminal {
  /** Pastes the text of a file and submits it, like a user. False: the program did not take it. */
  deliver(path: string): Promise<boolean>;
  /** Ends the program, at the latest after `graceMs`, and starts it again in the same window, as one that continues its session. */
  restart(graceMs: number): Promise<void>;
}

export interface LaunchedAgent {
  /** undefined: the agent has no window, and nothing can be written to it. */
  readonly terminal?: AgentTerminal;
  /** null if the agent runs on another machine, or has no process. */
  readonly pid: number | null;
  /** True once the agent has a process, or its Job is in the cluster. False: it could not be started, and `exited` has the problem. */
  readonly isStarted: boolean;
  /** Never rejects. */
  readonly exited: Promise<Exit>;
  /** Sends SIGTERM to the agent and its child processes, and SIGKILL after `graceMs`. Resolves when the agent has ended. */
  stop(graceMs: number): Promise<void>;
}

export interface Launcher {
  /**
   * Starts the agent, or finds the one that an earlier call started, even of an earlier runner. It never starts a second one. An agent
   * that cannot be started counts as ended, with a problem. Throws if the launcher cannot decide now.
   */
  start(spec: LaunchSpec): Promise<LaunchedAgent>;
  /** True if an agent was started for this folder, running or ended. */
  knows(folder: string): boolean;
  /** Stops watching. The agents keep running. */
  close(): Promise<void>;
}

export function failedToStart(problem: string, at: string): Exit {
  return {
    code: null,
    signal: null,
    problem,
    outOfMemory: false,
    lost: false,
    startedAt: at,
    endedAt: at,
  };
}
