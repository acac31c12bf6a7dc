/** The tools that `fleet mcp` offers to models: their parameters and descriptions. */
import { z } from "zod";
import { CHECKPOINT_TOOL_DESCRIPTION, checkpointToolSchema } from "./checkpoint-tool.ts";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";

const taskId = tokenSchema.describe("The task. Default: the one of this session.");
const text = z.string().min(1).max(2_000);
const limit = z.int().min(1).max(50).default(10);

export const MCP_TOOL_SCHEMAS = {
  checkpoint: checkpointToolSchema.extend({ taskId: taskId.optional() }),
  resume: z.strictObject({
    taskId: taskId.optional(),
    takeOver: z
      .boolean()
      .default(false)
      .describe("Take the task also from an agent that owns it now. That agent can no longer write."),
  }),
  handoff: z.strictObject({
    taskId: taskId.optional(),
    toAgentType: tokenSchema.optional().describe("The type of the next agent. Default: the same type."),
    reason: text.describe("Why another agent should continue."),
  }),
  search: z
    .strictObject({
      text: z
        .string()
        .min(1)
        .max(LIMITS.search_text_chars_max)
        .optional()
        .describe("Words that must all appear."),
      agentId: tokenSchema.optional(),
      agentType: tokenSchema.optional(),
      limit,
    })
    .refine(
      (query) => query.text !== undefined || query.agentId !== undefined || query.agentType !== undefined,
      {
        path: ["text"],
        error: "at least one of text, agentId and agentType",
      },
    ),
  history: z.strictObject({ taskId: taskId.optional(), limit }),
  report_progress: z.strictObject({
    taskId: taskId.optional(),
    step: text.describe("What you do now."),
    percent: z.number().min(0).max(100).optional().describe("How much of the task is done."),
  }),
} as const;

export type McpToolName = keyof typeof MCP_TOOL_SCHEMAS;
export type McpToolCall<Name extends McpToolName> = z.output<(typeof MCP_TOOL_SCHEMAS)[Name]>;

export const MCP_TOOL_DESCRIPTIONS: Readonly<Record<McpToolName, string>> = {
  checkpoint: CHECKPOINT_TOOL_DESCRIPTION,
  resume:
    "Takes a task over and returns the prompt from which you continue it. Call it first when you continue earlier work.",
  handoff:
    "Hands your task to another agent, from your last checkpoint. Write a checkpoint first, and stop afterwards.",
  search: "Finds checkpoints of all tasks by their words, agent or agent type.",
  history: "Lists the checkpoints of a task, the newest first.",
  report_progress:
    "Records what you do now and how much is done, in your last checkpoint. Write a checkpoint first.",
};

export const MCP_TOOL_NAMES = Object.keys(MCP_TOOL_SCHEMAS) as McpToolName[];

export function isMcpTool(name: string): name is McpToolName {
  return Object.hasOwn(MCP_TOOL_SCHEMAS, name);
}

/** The parameters as JSON Schema. */
export function mcpToolJsonSchema(name: McpToolName): Record<string, unknown> {
  const { $schema: _, ...schema } = z.toJSONSchema(MCP_TOOL_SCHEMAS[name], { io: "input" });
  return schema;
}
