/**
 * How an agent is started, watched and stopped, whatever it runs in: a child process, a tmux window, a Kubernetes Job. What runs is
 * known by the agent's name and what its folder says, not by who started it, so that a runner that was killed finds its agents again.
 */

import type { PROMPT_CHANNELS } from "../../../shared/protocol/runner-settings.ts";

export type PromptChannel = (typeof PROMPT_CHANNELS)[number];

/** All that is needed to start one agent. The same spec again finds the agent that was started with it. */
export interface LaunchSpec {
  /** The agent's id: no other agent ever has it. */
  readonly name: string;
  readonly agentType: string;
  /** Absolute; belongs to this agent alone. */
  readonly folder: string;
  /** Program and arguments, each exactly as the agent gets it: no shell ever sees them. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly prompt: { readonly channel: PromptChannel; readonly path: string };
  /** Of what the agent prints, the newest bytes are kept. */
  readonly logBytes: number;
}

/** How an agent ended, as far as the system tells it. */
export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
  /** Why it could not be started: the system's words, such as `spawn ./agent ENOENT`, or a word of the launcher's. */
  readonly problem: string | null;
  /** Something was killed for want of memory just before. */
  readonly outOfMemory: boolean;
  /** Who watched it died as well: nobody knows how it ended. */
  readonly lost: boolean;
  readonly startedAt: string;
  readonly endedAt: string;
}

export interface LaunchedAgent {
  /** null where it runs elsewhere. */
  readonly pid: number | null;
  /** Never rejects. */
  readonly exited: Promise<Exit>;
  /** Asks it and all that it started to end, and kills what is left after `graceMs`. Resolves when it is over. */
  stop(graceMs: number): Promise<void>;
}

export interface Launcher {
  /**
   * Starts the agent, or finds the one that an earlier call started, also of a runner that is gone; never a second one. An agent that
   * cannot be started is one that has ended, with a problem. Throws where that cannot be told now.
   */
  start(spec: LaunchSpec): Promise<LaunchedAgent>;
  /** Whether an agent was started for this folder, whatever became of it. */
  knows(folder: string): boolean;
  /** Agents run on; only the watching ends. */
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
