/**
 * Commands: the requests that change something. Each carries a `command_id` made by its caller and kept across retries, so that
 * any number of copies has one effect and one answer. Tenant, agent and task come from the subject, which the server's
 * permissions guard, never from the body.
 */
import { z } from "zod";
import { checkpointInputSchema, FINAL_STATUSES } from "./checkpoint.ts";
import { handoffReasonSchema, handoffWish, handoffWishSchema } from "./handoff-record.ts";
import { checkpointIdSchema, commandIdSchema, tokenSchema } from "./ids.ts";
import { recoverWish } from "./recovery-record.ts";
import { retentionSchema } from "./retention.ts";
import type { CommandOp } from "./subjects.ts";

/**
 * The agent promises to say that it lives, from now on: should it fall silent it loses the task, even if it was never heard. Without the
 * promise an agent is watched from its first heartbeat on.
 */
const heartbeats = z.boolean().optional();

const envelope = {
  command_id: commandIdSchema,
  /** The caller's fence; needed once the task has an owner. */
  fence: z.int().min(0).optional(),
  /** A command of the same task that was answered `queued`: this one is applied behind it, not before. */
  after: commandIdSchema.optional(),
};

/**
 * The new checkpoint takes the command's id. `expected_version`: how many checkpoints the task has so far. In phase `handoff` it opens a
 * handoff of the same id, about which `handoff` says more.
 */
export const createCommandSchema = z
  .looseObject({
    ...envelope,
    checkpoint: checkpointInputSchema,
    expected_version: z.int().min(0).optional(),
    handoff: handoffWishSchema.optional(),
  })
  .refine(
    ({ checkpoint, handoff }) => handoff === undefined || checkpoint.execution_state.phase === "handoff",
    {
      path: ["handoff"],
      error: "nothing, unless checkpoint.execution_state.phase is handoff",
    },
  );

/** `patch` is a JSON merge patch (RFC 7396) of the sections that an agent may write. */
export const updateCommandSchema = z.looseObject({
  ...envelope,
  checkpoint_id: checkpointIdSchema,
  patch: z.looseObject({}),
  expected_version: z.int().min(1).optional(),
});

export const finalizeCommandSchema = z.looseObject({
  ...envelope,
  checkpoint_id: checkpointIdSchema,
  status: z.enum(FINAL_STATUSES, { error: `one of ${FINAL_STATUSES.join(", ")}` }),
  retention_policy: retentionSchema.optional(),
  expected_version: z.int().min(1).optional(),
});

export const linkCommandSchema = z.looseObject({
  ...envelope,
  parent_id: checkpointIdSchema,
  child_id: checkpointIdSchema,
  expected_version: z.int().min(1).optional(),
});

/**
 * Makes the caller the task's owner and raises the fence. It needs no fence, since taking over is what it is for; one that is given
 * must be the current one. `expected_fence`: refuse unless the task has this fence, so that of two who take at once one knows.
 */
export const takeCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  expected_fence: z.int().min(0).optional(),
  heartbeats,
});

/** Gives the task back. The fence stays as it is: it never falls. */
export const releaseCommandSchema = z.looseObject({
  ...envelope,
  fence: z.int().min(1),
});

/** Opens a handoff of a checkpoint that exists: the task's latest one, unless another is named. */
export const handoffCommandSchema = z.looseObject({
  ...envelope,
  checkpoint_id: checkpointIdSchema.optional(),
  ...handoffWish,
});

/**
 * Takes what was offered: makes the caller the task's owner under the next fence. It needs no fence, like `take`; handoff, checkpoint and
 * agent type must be those of the offer.
 */
export const acknowledgeCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  handoff_id: checkpointIdSchema,
  checkpoint_id: checkpointIdSchema,
  agent_type: tokenSchema,
  heartbeats,
});

/** Takes a handoff back that nobody has accepted yet: the open one, unless another is named. */
export const cancelHandoffCommandSchema = z.looseObject({
  ...envelope,
  handoff_id: checkpointIdSchema.optional(),
  reason: handoffReasonSchema.optional(),
});

/**
 * Has the task recovered now: whoever owns it loses it, and another agent goes on from `checkpoint_id`, else from the newest checkpoint that
 * verifies. It needs no fence, like `take`. `reset`: with the whole budget. `force`: although the task's agent lives.
 */
export const recoverCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  ...recoverWish,
});

export const COMMAND_SCHEMAS = {
  create: createCommandSchema,
  update: updateCommandSchema,
  finalize: finalizeCommandSchema,
  link: linkCommandSchema,
  take: takeCommandSchema,
  release: releaseCommandSchema,
  handoff: handoffCommandSchema,
  acknowledge: acknowledgeCommandSchema,
  cancel_handoff: cancelHandoffCommandSchema,
  recover: recoverCommandSchema,
} as const satisfies Record<CommandOp, z.ZodType>;

export type CommandBody<Op extends CommandOp> = z.output<(typeof COMMAND_SCHEMAS)[Op]>;
export type CreateCommand = z.output<typeof createCommandSchema>;
export type UpdateCommand = z.output<typeof updateCommandSchema>;
export type FinalizeCommand = z.output<typeof finalizeCommandSchema>;
export type LinkCommand = z.output<typeof linkCommandSchema>;
export type HandoffCommand = z.output<typeof handoffCommandSchema>;
export type AcknowledgeCommand = z.output<typeof acknowledgeCommandSchema>;
export type CancelHandoffCommand = z.output<typeof cancelHandoffCommandSchema>;
export type RecoverCommand = z.output<typeof recoverCommandSchema>;
export type TakeCommand = z.output<typeof takeCommandSchema>;

/** Who acts, as the subject says. */
export interface Actor {
  readonly tenant: string;
  readonly agent: string;
  readonly task: string;
}
