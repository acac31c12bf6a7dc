/** Who plays in the third act: three tasks, each with an agent that fails in a way of its own. */
import type { Witness } from "../witness.ts";

/** Of all agents of this act, and of no other, so that a policy can say how soon these are taken for dead. */
export const AGENT_TYPE = "implementation";

export const CAST = {
  /** Killed at its work. */
  crash: "agent-1",
  /** Lives, and never comes back from a step. */
  hang: "agent-2",
  /** Killed as well, and its newest checkpoint is damaged on disk. */
  disk: "agent-3",
} as const;
export type Kind = keyof typeof CAST;

/** What is true of a task's story as soon as its agent has failed. */
export interface Story {
  readonly kind: Kind;
  /** The agent that begins the task and fails. */
  readonly agent: string;
  readonly witness: Witness;
  /** At which item it stood still. */
  readonly stoppedAt: string;
  /** Since when it does nothing any more, in milliseconds since the epoch. */
  readonly failedAtMs: number;
  /** The checkpoint that was damaged, and what it said of its newest item before. */
  readonly damaged: { readonly checkpointId: string; readonly text: string } | null;
}
