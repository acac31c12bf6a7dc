/** The prompts of an MCP server, which a user chooses: continue a task, write a checkpoint, hand the task off. */
import { FleetError, invalid } from "../../shared/protocol/errors.ts";
import { isToken } from "../../shared/protocol/ids.ts";
import type { McpSession } from "./session.ts";

export const MCP_PROMPTS = [
  {
    name: "resume",
    description: "Continue a task from its newest checkpoint.",
    arguments: [{ name: "task", description: "the task", required: true }],
  },
  { name: "checkpoint", description: "Check the work, and save it with a checkpoint." },
  { name: "handoff", description: "Save the work, and hand the task to another agent." },
];

const CHECKPOINT = `First validate the work: does what you changed build, and do the tests pass that concern it? Repair small faults at once.
Then call the tool checkpoint: completed items in the past tense with their files, pending items as actions in order, decisions with their reasons, and the exact next action with its file or URL.`;

const TEXTS: Readonly<Record<string, string>> = {
  checkpoint: CHECKPOINT,
  handoff: `${CHECKPOINT}\nThen call the tool handoff with the reason, and stop.`,
};

/** Throws INVALID for an unknown prompt or a missing argument. */
export async function promptMessage(
  session: McpSession,
  name: string,
  { task = "" }: Readonly<Record<string, string>>,
): Promise<string> {
  if (name !== "resume") {
    const text = Object.hasOwn(TEXTS, name) ? TEXTS[name] : undefined;
    if (text === undefined)
      throw invalid("name", `one of ${MCP_PROMPTS.map((prompt) => prompt.name).join(", ")}`, name);
    return text;
  }
  if (!isToken(task)) throw invalid("task", "the id of a task", task);
  const { checkpoint } = await session.fleet.latest(task);
  if (checkpoint === null)
    throw new FleetError("NOT_FOUND", "the task has no checkpoint to continue from", {
      details: { task_id: task },
    });
  return `Call the tool resume with taskId "${task}" first.\n\n${session.promptOf(checkpoint)}`;
}
