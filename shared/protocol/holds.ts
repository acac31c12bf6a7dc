/** Holds: named reasons to remove nothing of a task, such as a legal case. Placing and releasing them is a right of its own. */
import { z } from "zod";
import { commandIdSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";

/** Such as the number of a case. It stands in the audit trail, so it must not have content. */
export const caseReference = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9 ._:/#-]{0,63}$/, "1 to 64 letters, digits, spaces and . _ : / # -");

/** `hold` and `release`: the name of a hold. `reason` is a code, such as `litigation`. */
export const holdCommandSchema = z
  .looseObject({
    command_id: commandIdSchema,
    fence: z.int().min(0).optional(),
    hold: tokenSchema.optional(),
    release: tokenSchema.optional(),
    reason: tokenSchema.optional(),
    case: caseReference.optional(),
  })
  .refine(({ hold, release }) => hold !== undefined || release !== undefined, {
    path: ["hold"],
    error: "at least one of hold and release",
  });
export type HoldCommand = z.output<typeof holdCommandSchema>;

/** How a hold was placed. */
export const placedHoldSchema = z.looseObject({
  name: z.string(),
  by: z.string(),
  at: z.string(),
  reason: z.string().nullable(),
  case: z.string().nullable(),
});
export type PlacedHold = z.output<typeof placedHoldSchema>;

/** All holds of the tenant, ordered by task. */
export const holdsQuerySchema = z.looseObject({
  limit: pageLimit(LIMITS.holds_limit_max, LIMITS.holds_limit_default),
  cursor: z.string().max(1_024).optional(),
});

const listedHoldSchema = z.looseObject({
  task_id: z.string(),
  name: z.string(),
  /** null, like the next one: an earlier version of the fleet placed it; the audit trail has them. */
  by: z.string().nullable(),
  at: z.string().nullable(),
  /** null, like the next one: none was given. */
  reason: z.string().nullable(),
  case: z.string().nullable(),
});

export const holdPageSchema = z.looseObject({
  holds: z.array(listedHoldSchema),
  /** The tasks whose record is damaged: what holds them is not known. */
  corrupt: z.array(z.string()),
  /** Absent on the last page. An earlier page may be shorter than `limit`, or empty. */
  cursor: z.string().exactOptional(),
});
export type HoldPage = z.output<typeof holdPageSchema>;
