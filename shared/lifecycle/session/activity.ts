/** What was done in a session, gathered from its events. Bounded: the newest files and commands stay. */
import { LIMITS } from "../../protocol/limits.ts";
import type { AgentSession, TurnEvent } from "../../protocol/turns.ts";

export const NO_ACTIVITY: AgentSession["activity"] = {
  goal: null,
  prompt: null,
  message: null,
  files: [],
  commands: [],
  tool_calls: 0,
  usage: {},
};

const USAGE = [
  "model",
  "context_tokens",
  "context_limit",
  "input_tokens",
  "output_tokens",
  "cached_tokens",
] as const;

const newest = <T>(items: readonly T[], count: number): T[] => items.slice(-count);

/** `isNew`: the event reports something worth saving. A repeated event reports nothing. */
export function mergeActivity(
  { activity: known }: Pick<AgentSession, "activity">,
  { at, activity, is_checkpoint_message }: Pick<TurnEvent, "at" | "activity" | "is_checkpoint_message">,
  isRepeated: boolean,
): { readonly activity: AgentSession["activity"]; readonly isNew: boolean } {
  if (activity === undefined || isRepeated) return { activity: known, isNew: false };
  const isOwnPrompt = activity.prompt !== undefined && is_checkpoint_message !== true;
  const files = activity.files ?? [];
  // Only these members: an unknown one may have any size.
  const commands = (activity.commands ?? []).map(({ command, passed, is_test }) => ({
    ...{ command, at },
    ...(passed !== undefined && { passed }),
    ...(is_test !== undefined && { is_test }),
  }));
  const calls = activity.tool_calls ?? 0;
  const usage = Object.fromEntries(
    USAGE.flatMap((name) => (activity[name] === undefined ? [] : [[name, activity[name]]])),
  );
  const merged = {
    goal: known.goal ?? (isOwnPrompt ? (activity.prompt ?? null) : null),
    prompt: isOwnPrompt ? (activity.prompt ?? null) : known.prompt,
    message: activity.message ?? known.message,
    files: newest(
      [...known.files.filter((file) => !files.includes(file)), ...files],
      LIMITS.session_files_count_max,
    ),
    commands: newest([...known.commands, ...commands], LIMITS.session_commands_count_max),
    tool_calls: known.tool_calls + calls,
    usage: { ...known.usage, ...usage },
  };
  const isNew = isOwnPrompt || files.length > 0 || commands.length > 0 || calls > 0;
  return { activity: merged, isNew };
}
