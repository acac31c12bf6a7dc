/** The check of the end of a handoff: every handoff has ended, and its history justifies the end. */
import { BUILTIN_AGENT_TYPES } from "../../../../../shared/protocol/checkpoint.ts";
import { type HandoffState, isOpenHandoff } from "../../../../../shared/protocol/handoff-states.ts";
import type { DamageLine } from "../../agents/history.ts";
import { type Command, type Entry, endsForRetry, type Violation } from "../evidence.ts";
import {
  causeOf,
  firstWrites,
  type HandoffHistory,
  handoffReporter,
  stateOf,
  timeOf,
} from "./handoff-history.ts";

type Commands = ReadonlyMap<string, Command>;
type End = Exclude<HandoffState, "requested" | "validated" | "offered" | "accepted">;

export function checkEnd(
  history: HandoffHistory,
  commands: Commands,
  damages: readonly DamageLine[],
): Violation[] {
  const found: Violation[] = [];
  const report = handoffReporter(found, history);
  const state = stateOf(history);
  const end = history.moves.at(-1)!;
  if (isOpenHandoff(state)) {
    report("handoff_unfinished", "a handoff has not ended after all faults are undone", { state });
    return found;
  }
  const own = damages.filter(({ task, wall }) => task === history.task && wall <= timeOf(end));
  const problem = JUSTIFIED[state as End](history, end, commands, own);
  if (problem !== null) {
    const { seq, reason = null } = end;
    report("handoff_unjustified", "the end of a handoff has no cause", {
      ...{ state, seq, reason, problem },
    });
  }
  return found;
}

/** Returns the reason why an end is not justified, or null. `damages` are the earlier damages of its task. */
type Justification = (
  history: HandoffHistory,
  end: Entry,
  commands: Commands,
  damages: readonly DamageLine[],
) => string | null;

const JUSTIFIED: Readonly<Record<End, Justification>> = {
  confirmed: (history, end, commands) => {
    const acceptance = acceptanceIn(history);
    const cause = causeOf(history, end);
    const writer = commands.get(end.command_id ?? "")?.attempts[0];
    if (acceptance === undefined) return "no agent had accepted it";
    if (cause?.op !== "create" || cause.checkpoint_id !== end.first_checkpoint)
      return "no checkpoint confirms it";
    if (writer?.agent !== acceptance.owner_to || writer?.fence !== acceptance.fence)
      return "an agent that had not accepted it wrote the checkpoint";
    const earlier = firstWrites(history, acceptance, end, commands).filter(({ seq }) => seq < cause.seq);
    return earlier.length > 0 ? "the agent had written an earlier checkpoint" : null;
  },
  cancelled: (history, end, commands) => {
    const cause = causeOf(history, end);
    switch (end.reason) {
      case "withdrawn":
        if (commands.get(end.command_id ?? "")?.attempts[0]?.op !== "cancel_handoff")
          return "no agent cancelled it";
        return end.handoff_from === "accepted" ? "an agent had accepted it" : null;
      case "taken":
        return cause?.op === "take" ? null : "no agent took the task";
      case "task_ended":
        return cause?.op === "finalize" ? null : "the task did not end";
      case "superseded": {
        const isByHandoff = cause?.op === "create" && followedBy(history, end, "handoff");
        if (isByHandoff || endsForRetry(end, history.entries[end.seq])) return null;
        return "neither another handoff nor the request for a recovery superseded it";
      }
      case "agent_failed":
        if (end.handoff_from !== "accepted") return "no agent had accepted it";
        return history.entries[end.seq]?.op === "fail" ? null : "no agent failed";
      default:
        return "unknown reason";
    }
  },
  escalated: (history, end) => {
    const { record } = history;
    // The watchdogs continue an attempt whose checkpoint was damaged after it was chosen.
    const isCorruptAttempt = record?.recovery != null && end.reason === "hash_broken";
    if (!isCorruptAttempt && history.entries[end.seq]?.op !== "block") return "its task was not blocked";
    const offers = history.moves.filter(({ op }) => op === "offer");
    switch (end.reason) {
      case "no_agent": {
        if (offers.length === 0 || offers.length !== record?.max_attempts)
          return "the number of offers differs from the limit";
        return timeOf(end) < Date.parse(offers.at(-1)!.deadline!) ? "its last offer was open" : null;
      }
      case "agent_type_unknown":
        return (BUILTIN_AGENT_TYPES as readonly string[]).includes(record?.to_agent_type ?? "")
          ? "the agent type is known"
          : null;
      default:
        return "no fault can cause it";
    }
  },
  rejected: (history, end, _commands, damages) => {
    if (damages.length === 0) return "no checkpoint was damaged";
    if (end.reason === "chain_broken") return null;
    const isDamaged = damages.some(({ checkpoint_id: id }) => id === history.record?.checkpoint_id);
    return isDamaged ? null : "its own checkpoint was not damaged";
  },
  lapsed: (history, end, commands) => {
    const acceptance = acceptanceIn(history);
    if (acceptance === undefined) return "no agent had accepted it";
    if (timeOf(end) < timeOf(acceptance) + (history.record?.first_checkpoint_ms ?? 0))
      return "the deadline had not passed";
    return firstWrites(history, acceptance, end, commands).length > 0
      ? "the agent had written a checkpoint"
      : null;
  },
};

/** Whether the same command also made an entry of this operation later. */
const followedBy = ({ entries }: HandoffHistory, { seq, command_id }: Entry, op: string): boolean =>
  entries.some((entry) => entry.seq > seq && entry.command_id === command_id && entry.op === op);

const acceptanceIn = ({ moves }: HandoffHistory): Entry | undefined =>
  moves.findLast(({ op }) => op === "acknowledge");
