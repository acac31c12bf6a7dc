/**
 * The checkpoint message (seed 001): the structured debrief that an agent is asked for at the end of a turn. The text is a
 * document that a fleet may replace; its first line is always {@link CHECKPOINT_MARK}, by which hooks know it again.
 */

/** A prompt with this mark is the checkpoint message, and begins no new turn. */
export const CHECKPOINT_MARK = "[Fleet checkpoint]";

export const CHECKPOINT_MESSAGE = `You have reached the end of a turn. Do this now, in this order, then stop.

1. Validate the work. Does what you changed build, and do the tests pass that concern it? If you do not know, run them. Repair small faults at once; record the others as blocked.
2. Capture the artifacts. Write a checkpoint:

       {command}

   Name every completed item in the past tense with its files, every pending item as an action, in order, every decision with its reason, and the exact next action with its file or URL. The next agent sees only this checkpoint.

If nothing has changed since your last checkpoint, report this in one sentence and stop. Do not begin new work.`;

export interface CheckpointMessageInput {
  readonly taskId: string;
  readonly agentType: string;
  readonly fence?: number | undefined;
  /** The call of Fleet in the agent's shell; default `fleet`, for an agent whose environment names its fleet and itself. */
  readonly program?: string | undefined;
  /** The author, if the agent's environment does not name it. */
  readonly agentId?: string | undefined;
  /** The document; default {@link CHECKPOINT_MESSAGE}. {command} is the call of \`fleet checkpoint\`, {task} the task. */
  readonly document?: string | undefined;
  /** What the agent is to know besides, after the document. */
  readonly notice?: string | undefined;
}

export function checkpointMessage(input: CheckpointMessageInput): string {
  const { taskId, agentType, agentId, fence, document, notice, program = "fleet" } = input;
  const author = agentId === undefined ? "" : ` --agent ${agentId}`;
  const owner = fence === undefined ? "" : ` --fence ${fence}`;
  const command = `${program} checkpoint --task ${taskId}${author}${owner} --type ${agentType} --phase implementing --goal "..." --completed "..." --pending "..." --decision "... because ..." --next "..." --lint`;
  const text = (document ?? CHECKPOINT_MESSAGE)
    // By functions: a path may have the signs of a replacement.
    .replaceAll("{command}", () => command)
    .replaceAll("{task}", () => taskId)
    .trim();
  return `${CHECKPOINT_MARK}\n\n${text}\n${notice === undefined ? "" : `\n${notice}\n`}`;
}

export const isCheckpointMessage = (prompt: string): boolean => prompt.includes(CHECKPOINT_MARK);
