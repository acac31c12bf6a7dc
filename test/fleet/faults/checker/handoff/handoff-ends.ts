/** The end of a handoff: there is one, and what happened before it is a reason for it. */
import { BUILTIN_AGENT_TYPES } from "../../../../../shared/protocol/checkpoint.ts";
import { type HandoffState, isOpenHandoff } from "../../../../../shared/protocol/handoff-states.ts";
import type { DamageLine } from "../../agents/history.ts";
import type { Command, Entry, Violation } from "../evidence.ts";
import { causeOf, firstWrites, type HandoffStory, sayingOf, stateOf, timeOf } from "./handoff-history.ts";

type Commands = ReadonlyMap<string, Command>;
type End = Exclude<HandoffState, "requested" | "validated" | "offered" | "accepted">;

export function checkEnd(
  story: HandoffStory,
  commands: Commands,
  damages: readonly DamageLine[],
): Violation[] {
  const found: Violation[] = [];
  const say = sayingOf(found, story);
  const state = stateOf(story);
  const end = story.moves.at(-1)!;
  if (isOpenHandoff(state)) {
    say("handoff_unfinished", "a handoff has not come to an end, with every fault undone", { state });
    return found;
  }
  const own = damages.filter(({ task, wall }) => task === story.task && wall <= timeOf(end));
  const problem = JUSTIFIED[state as End](story, end, commands, own);
  if (problem !== null) {
    const { seq, reason = null } = end;
    say("handoff_unjustified", "nothing that happened is a reason for a handoff's end", {
      ...{ state, seq, reason, problem },
    });
  }
  return found;
}

/** What is wrong with an end; null: nothing. `damages`: of its task, until then. */
type Justification = (
  story: HandoffStory,
  end: Entry,
  commands: Commands,
  damages: readonly DamageLine[],
) => string | null;

const JUSTIFIED: Readonly<Record<End, Justification>> = {
  confirmed: (story, end, commands) => {
    const taken = takenIn(story);
    const cause = causeOf(story, end);
    const writer = commands.get(end.command_id ?? "")?.attempts[0];
    if (taken === undefined) return "nobody had accepted it";
    if (cause?.op !== "create" || cause.checkpoint_id !== end.first_checkpoint)
      return "no checkpoint confirms it";
    if (writer?.agent !== taken.owner_to || writer?.fence !== taken.fence)
      return "another than the taker wrote it";
    const earlier = firstWrites(story, taken, end, commands).filter(({ seq }) => seq < cause.seq);
    return earlier.length > 0 ? "the taker had written before" : null;
  },
  cancelled: (story, end, commands) => {
    const cause = causeOf(story, end);
    switch (end.reason) {
      case "withdrawn":
        if (commands.get(end.command_id ?? "")?.attempts[0]?.op !== "cancel_handoff")
          return "nobody took it back";
        return end.handoff_from === "accepted" ? "somebody had accepted it" : null;
      case "taken":
        return cause?.op === "take" ? null : "nobody took the task";
      case "task_ended":
        return cause?.op === "finalize" ? null : "the task did not end";
      case "superseded":
        return cause?.op === "create" && followedBy(story, end, "handoff")
          ? null
          : "no other handoff came in its place";
      case "agent_failed":
        if (end.handoff_from !== "accepted") return "nobody had accepted it";
        return story.entries[end.seq]?.op === "fail" ? null : "nobody failed";
      default:
        return "no such reason";
    }
  },
  escalated: (story, end) => {
    const { record } = story;
    if (story.entries[end.seq]?.op !== "block") return "its task was not blocked";
    const offers = story.moves.filter(({ op }) => op === "offer");
    switch (end.reason) {
      case "no_agent": {
        if (offers.length === 0 || offers.length !== record?.max_attempts)
          return "it was not offered as often as it may be";
        return timeOf(end) < Date.parse(offers.at(-1)!.deadline!) ? "its last offer still stood" : null;
      }
      case "agent_type_unknown":
        return (BUILTIN_AGENT_TYPES as readonly string[]).includes(record?.to_agent_type ?? "")
          ? "there are such agents"
          : null;
      default:
        return "no fault can be the cause of it";
    }
  },
  rejected: (story, end, _commands, damages) => {
    if (damages.length === 0) return "nobody damaged what was stored";
    if (end.reason === "chain_broken") return null;
    const isDamaged = damages.some(({ checkpoint_id: id }) => id === story.record?.checkpoint_id);
    return isDamaged ? null : "its own checkpoint was not damaged";
  },
  lapsed: (story, end, commands) => {
    const taken = takenIn(story);
    if (taken === undefined) return "nobody had accepted it";
    if (timeOf(end) < timeOf(taken) + (story.record?.first_checkpoint_ms ?? 0))
      return "the taker still had time";
    return firstWrites(story, taken, end, commands).length > 0 ? "the taker had written" : null;
  },
};

/** By the same command, perhaps with something between. */
const followedBy = ({ entries }: HandoffStory, { seq, command_id }: Entry, op: string): boolean =>
  entries.some((entry) => entry.seq > seq && entry.command_id === command_id && entry.op === op);

const takenIn = ({ moves }: HandoffStory): Entry | undefined =>
  moves.findLast(({ op }) => op === "acknowledge");
