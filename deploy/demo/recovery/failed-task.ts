/** The tasks of the third part, each with an agent that fails in its own way. */
import type { TaskObserver } from "../task-observer.ts";

/** The type of all agents of this part and of no others, so that the policy can set a shorter silence for them. */
export const AGENT_TYPE = "implementation";

export const FAILING_AGENTS = {
  /** Killed at work. */
  crash: "agent-1",
  /** Sends heartbeats, and never returns from a step. */
  hang: "agent-2",
  /** Killed, and its newest checkpoint is damaged on disk. */
  disk: "agent-3",
} as const;
export type FailureKind = keyof typeof FAILING_AGENTS;

/** The facts about a task whose agent has failed. */
export interface FailedTask {
  readonly kind: FailureKind;
  /** The agent that begins the task and fails. */
  readonly agent: string;
  readonly observer: TaskObserver;
  /** The item at which it stopped. */
  readonly stoppedAt: string;
  /** The time of the failure, in milliseconds since the epoch. */
  readonly failedAtMs: number;
  /** The damaged checkpoint, with its original note about the newest item. */
  readonly damaged: { readonly checkpointId: string; readonly text: string } | null;
}
