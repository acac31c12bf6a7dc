/** The query for the checkpoints that a prune would remove. */
import { z } from "zod";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";
import { pruneFields, REMOVAL_REASONS } from "./retention.ts";

/** The checkpoints that a prune with these values would remove, ordered by task. */
export const prunableQuerySchema = z.looseObject({
  /** Only of this task. */
  task_id: tokenSchema.optional(),
  ...pruneFields,
  limit: pageLimit(LIMITS.prunable_limit_max, LIMITS.prunable_limit_default),
  cursor: z.string().max(1_024).optional(),
});

/** A checkpoint that retention would remove now. */
const prunableSchema = z.looseObject({
  checkpoint_id: z.string(),
  task_id: z.string(),
  seq: z.int(),
  /** When its newest version was committed. */
  committed_at: z.string(),
  trigger: z.string(),
  phase: z.string(),
  retention_policy: z.string(),
  reason: z.enum(REMOVAL_REASONS),
  /** What its records take in the store, with its earlier versions. */
  bytes: z.int(),
});
export type PrunableCheckpoint = z.infer<typeof prunableSchema>;

export const prunablePageSchema = z.looseObject({
  checkpoints: z.array(prunableSchema),
  /** Absent on the last page. An earlier page may be shorter than `limit`, or empty. */
  cursor: z.string().exactOptional(),
});
export type PrunablePage = z.infer<typeof prunablePageSchema>;
