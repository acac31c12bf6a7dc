/**
 * The instructions that follow the prompt of an agent program that does not know Fleet: its id, and the command for checkpoints.
 * Everything else that the command needs is in the environment of the agent.
 */
import { FREQUENCY_TEXT, MOMENTS_TEXT } from "../../shared/protocol/checkpoint-moments.ts";
import type { AgentRecord } from "./journal.ts";

export function instructionsFor(record: AgentRecord, fence: number): string {
  const { agent_id, agent_type, task_id, first_checkpoint_ms } = record;
  const minutes = Math.max(1, Math.floor(first_checkpoint_ms / 60_000));
  const write = `fleet checkpoint --task ${task_id} --fence ${fence} --type ${agent_type}`;
  return [
    "",
    "",
    "---",
    "",
    "## How to keep this work safe",
    "",
    `You are agent ${agent_id}, and you own task ${task_id}. Save your work with the command \`fleet\` in a terminal.`,
    `Write the first checkpoint within ${minutes} ${minutes === 1 ? "minute" : "minutes"}; otherwise the task goes to another agent. Write further ones when`,
    `something fails, ${MOMENTS_TEXT}.`,
    `By the phase of your work: ${FREQUENCY_TEXT}.`,
    "",
    `    ${write} --phase implementing --completed "what is done" --pending "what remains" --next "the exact next action, with its file or URL" --lint`,
    "",
    "`--tokens`, `--context-used` and `--context-limit` report your usage. If the answer advises a handoff, hand the task off.",
    "",
    "The next agent sees only the newest checkpoint: name everything that is done and everything that remains, each item in its own",
    "quotes, including the items of earlier checkpoints and of the prompt above.",
    "",
    "When the task is done, use `--phase complete`. When your context fills up or another agent should continue, use `--phase handoff`",
    "and stop. If the command ends with exit code 7, another agent owns the task: stop at once.",
    "",
  ].join("\n");
}
