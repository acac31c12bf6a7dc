/**
 * What an agent program that knows nothing of Fleet must be told beside its prompt: who it is, and how to write checkpoints from a
 * terminal. Everything else that the commands need is in its environment.
 */
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
    `You are agent ${agent_id}, and task ${task_id} is yours. Your work is kept by the command \`fleet\`, which you run in a terminal.`,
    `Write the first checkpoint within ${minutes} ${minutes === 1 ? "minute" : "minutes"}, or the task goes to another agent; then one after`,
    "each finished piece of work, before anything risky, and when something fails:",
    "",
    `    ${write} --phase implementing --completed "what is done" --pending "what remains" --next "the exact next action"`,
    "",
    "Each checkpoint is all that the next agent gets to see: name everything that is done and everything that remains, each in quotes of",
    "its own, also what an earlier checkpoint or the prompt above named.",
    "",
    "When the task is done, use `--phase complete`. When your context fills up or somebody else should go on, use `--phase handoff`",
    "and stop. When the command ends with exit code 7, another agent has the task: stop at once.",
    "",
  ].join("\n");
}
