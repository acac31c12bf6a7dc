/**
 * When an agent writes a checkpoint: the moments and the frequency of seed 004, as one table for the instructions
 * of runners, the checkpoint tool and the manual.
 */
import type { TriggerReason } from "./checkpoint.ts";

export interface CheckpointMoment {
  readonly when: string;
  readonly why: string;
  /** The reason that a checkpoint of this moment has. */
  readonly reason: TriggerReason;
}

export const MANDATORY_MOMENTS: readonly CheckpointMoment[] = [
  {
    when: "at a phase transition",
    why: "progress is kept before the next phase begins",
    reason: "phase_transition",
  },
  {
    when: "at the completion of the task",
    why: "what was accomplished is recorded",
    reason: "task_complete",
  },
  { when: "before a long operation", why: "the operation may fail", reason: "before_long_operation" },
  {
    when: "on a new message with priority",
    why: "the context is about to switch",
    reason: "priority_message",
  },
  { when: "after 10 minutes of work", why: "little is lost at any time", reason: "periodic" },
];

export const OPTIONAL_MOMENTS: readonly CheckpointMoment[] = [
  { when: "after each source, in research", why: "progress is incremental", reason: "progress" },
  { when: "after each section, in writing", why: "drafted content is not lost", reason: "progress" },
  { when: "after each component, in analysis", why: "progress is detailed", reason: "progress" },
];

/** The event in each phase of work after which a checkpoint is due. */
export const CHECKPOINT_AFTER = {
  "task receipt": "the requirements are parsed",
  discovery: "each source is found",
  "research and analysis": "each item is processed",
  drafting: "each section is completed",
  synthesis: "each major insight",
  delivery: "the final output",
} as const;

const whens = (moments: readonly CheckpointMoment[]): string => moments.map(({ when }) => when).join(", ");

/** For a model: "at a phase transition, …; also after each source, in research, …". */
export const MOMENTS_TEXT = `${whens(MANDATORY_MOMENTS)}; also ${whens(OPTIONAL_MOMENTS)}`;

/** For a model: "task receipt: after the requirements are parsed; …". */
export const FREQUENCY_TEXT = Object.entries(CHECKPOINT_AFTER)
  .map(([phase, event]) => `${phase}: after ${event}`)
  .join("; ");

/** Checkpoints closer together than this without progress are too many; further apart, too few. */
export const TOO_SOON_MS = 60_000;
export const TOO_LATE_MS = 30 * 60_000;
