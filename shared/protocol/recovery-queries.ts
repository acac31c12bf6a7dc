/** Queries about recoveries, and the results. */
import { z } from "zod";
import type { Checkpoint } from "./checkpoint.ts";
import type { CorruptCheckpoint } from "./checkpoint-pages.ts";
import type { ErrorBody } from "./errors.ts";
import type { SignaturesBeside } from "./esign.ts";
import { checkpointIdSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";
import { type PointFailure, RECOVERING_STATES } from "./recovery-states.ts";
import type { Task } from "./task.ts";

const cursor = z.string().max(1_024).optional();

/**
 * The recovery point of a task: its newest sound checkpoint. `before`: the newest sound one that is older
 * than this, if there is one. `checkpoint_id`: this one, if it is sound. `to_agent_type`: the agent type that
 * it would be offered to.
 */
export const recoveryPointQuerySchema = z
  .looseObject({
    task_id: tokenSchema,
    before: checkpointIdSchema.optional(),
    checkpoint_id: checkpointIdSchema.optional(),
    to_agent_type: tokenSchema.optional(),
    /** Preview a recovery that takes the task from a living agent. */
    force: z.boolean().default(false),
  })
  .refine(({ before, checkpoint_id }) => before === undefined || checkpoint_id === undefined, {
    path: ["before"],
    error: "either before or checkpoint_id",
  });

/** Ordered by task id. */
export const recoveriesQuerySchema = z.looseObject({
  state: z.enum(RECOVERING_STATES, { error: `one of ${RECOVERING_STATES.join(", ")}` }).optional(),
  /** The type of the agent that failed, or else of the one that wrote last. */
  agent_type: tokenSchema.optional(),
  limit: pageLimit(LIMITS.recoveries_limit_max, LIMITS.recoveries_limit_default),
  cursor,
});

/** The recovery point that a recovery would find now. */
export interface FoundPoint extends SignaturesBeside {
  readonly checkpoint: Checkpoint | null;
  /** The reason why there is no recovery point. null: there is one. */
  readonly reason: PointFailure | null;
  readonly details: string | null;
  /** Newer checkpoints that were skipped because they are corrupt. They are quarantined. */
  readonly passed_over: readonly CorruptCheckpoint[];
  /** Versions that the store had lost, or held corrupt, and that were restored from the file mirror for this answer. */
  readonly restored?: readonly CorruptCheckpoint[];
  /** The owner that would lose the task. null: it has none. */
  readonly owner: {
    readonly agent_id: string;
    readonly fence: number;
    /**
     * The time until which its heartbeats and writes count as life. A recovery before needs `force`. null:
     * that time is over.
     */
    readonly alive_until: string | null;
  } | null;
  /** Why a recovery would be refused now. null: it would not. */
  readonly refused: Pick<ErrorBody, "code" | "message" | "details"> | null;
}

/** The result of a recovery that would run now. */
export interface RecoveryPreview extends FoundPoint {
  /** null: there is no recovery point. */
  readonly offer: {
    readonly agent_type: string;
    /** True if there may be agents of that type. Otherwise the task would be blocked. */
    readonly is_known: boolean;
    /** The number of offers before the task is blocked, and the time for each. */
    readonly max_attempts: number;
    readonly deadline_ms: number;
  } | null;
}

export interface RecoveryPage {
  /** Tasks whose recovery is not `idle`. */
  readonly tasks: readonly Task[];
  /** Absent on the last page. An earlier page may be shorter than `limit`, or empty. */
  readonly cursor?: string;
}
