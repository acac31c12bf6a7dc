/** The checkpoint tool of seed 004, which a model calls: `checkpoint(summary, resumePointer, tokensUsed?)`. */
import { z } from "zod";
import { TRIGGER_REASONS } from "./checkpoint.ts";
import { FREQUENCY_TEXT, MOMENTS_TEXT } from "./checkpoint-moments.ts";
import { LIMITS } from "./limits.ts";

export const CHECKPOINT_TOOL_DESCRIPTION = `Saves your work, so that you or another agent can continue it later. Call it ${MOMENTS_TEXT}. By the phase of your work: ${FREQUENCY_TEXT}. Name everything that is completed and everything that is pending, not only the changes.`;

const texts = z.array(z.string().min(1)).max(LIMITS.array_items_max);

export const checkpointToolSchema = z.strictObject({
  summary: z.strictObject({
    goal: z.string().min(1).describe("What the agent is trying to accomplish, in one sentence."),
    completed: texts.describe(
      "Concrete accomplishments in the past tense, specific enough not to be repeated.",
    ),
    pending: texts.describe("The remaining work as actions, the most important first."),
    decisions: texts.default([]).describe("Decisions that affect later work, each with its reason."),
  }),
  resumePointer: z.strictObject({
    nextAction: z
      .string()
      .min(1)
      .describe("The exact next step, which can be taken without further context. Not: Continue working."),
    currentContext: z.string().optional().describe("The file, URL or component at hand."),
    phase: z.string().min(1).optional().describe("The current phase of the work."),
  }),
  tokensUsed: z.int().min(0).optional().describe("The tokens that the model has processed so far."),
  reason: z.enum(TRIGGER_REASONS).optional().describe("The moment of this checkpoint. Default: manual."),
});

export type CheckpointToolInput = z.input<typeof checkpointToolSchema>;
export type CheckpointToolCall = z.output<typeof checkpointToolSchema>;

/** The parameters as JSON Schema, for the definition of a tool. */
export const checkpointToolJsonSchema = (): Record<string, unknown> =>
  z.toJSONSchema(checkpointToolSchema, { io: "input" }) as Record<string, unknown>;
