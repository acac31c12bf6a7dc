/**
 * The state of a session's turns as a pure function of its events (seed 001, invariants 1 to 5). The times of the events
 * decide, not the order of their arrival: hooks run beside each other, and a spool may deliver late.
 */
import { LIMITS } from "../../protocol/limits.ts";
import type { AgentSession, TurnDecision, TurnEvent } from "../../protocol/turns.ts";
import { mergeActivity, NO_ACTIVITY } from "./activity.ts";

export interface TurnTransition {
  readonly session: AgentSession;
  readonly decision: TurnDecision;
  /** The work is to be saved now. */
  readonly save: boolean;
}

const SAVING = new Set<TurnEvent["event"]>(["agent_stop", "pre_compact", "agent_error", "session_end"]);

/** `before`: null for the first event of the session. */
export function applyTurnEvent(
  before: AgentSession | null,
  agentId: string,
  event: TurnEvent,
): TurnTransition {
  const known = before ?? newSession(agentId, event);
  const { decision, change } = decide(known, event);
  const isRepeated = known.last_saved_at === event.at;
  const mark = `${event.event}@${event.at}`;
  const isOfOther = event.task_id !== undefined && known.task_id !== null && event.task_id !== known.task_id;
  // Prompts and commands of one task must not stay in the records of another: the shredding of a task would miss them.
  const begun = isOfOther ? { activity: NO_ACTIVITY } : known;
  const { activity, isNew } = mergeActivity(begun, event, known.recent_events.includes(mark));
  const isUnsaved = known.is_unsaved || isNew;
  const save = SAVING.has(event.event) && (isUnsaved || isRepeated);
  const end = endOf(known, event);
  const isLate = event.at < known.last_event_at;
  const session: AgentSession = {
    ...known,
    ...change,
    activity,
    task_id: event.task_id ?? known.task_id,
    folder: event.folder ?? known.folder,
    // The names of a folder and of its machine belong together.
    ...(event.folder !== undefined && { machine: event.machine ?? null }),
    is_unsaved: save ? false : isUnsaved,
    last_saved_at: save ? event.at : known.last_saved_at,
    recent_events: [...known.recent_events.filter((one) => one !== mark), mark].slice(
      -LIMITS.session_recent_count_max,
    ),
    last_event_at: isLate ? known.last_event_at : event.at,
    ...(!isLate && { ended_at: end === undefined ? null : event.at, end_reason: end ?? null }),
    ...(isLate && known.ended_at !== null && event.event === "agent_error" && { end_reason: end ?? null }),
  };
  return { session, decision, save };
}

/** Why the session ended. null: not reported; undefined: it has not ended. A program that ends after an error reports both. */
function endOf({ end_reason: known }: AgentSession, event: TurnEvent): string | null | undefined {
  if (event.event === "agent_error") return event.reason ?? null;
  if (event.event === "session_end") return known ?? event.reason ?? null;
  return undefined;
}

function newSession(agentId: string, event: TurnEvent): AgentSession {
  return {
    agent_id: agentId,
    session_id: event.session_id,
    vendor: event.vendor,
    task_id: null,
    folder: null,
    last_after_model_at: null,
    last_checkpoint_at: null,
    turn_began_at: null,
    last_saved_at: null,
    is_unsaved: false,
    last_event_at: event.at,
    recent_events: [],
    ended_at: null,
    end_reason: null,
    is_continuation_due: false,
    continued_at: null,
    previous_session: null,
    activity: NO_ACTIVITY,
  };
}

interface Decided {
  readonly decision: TurnDecision;
  readonly change?: Partial<AgentSession>;
}

function decide(session: AgentSession, event: TurnEvent): Decided {
  const { last_after_model_at: first, last_checkpoint_at: asked, turn_began_at: began } = session;
  const { at } = event;
  if (began !== null && at < began) return { decision: "out_of_date" };
  switch (event.event) {
    case "user_prompt_submit": {
      const change = promptChange(session, event);
      // A repetition of the prompt that continued, after an answer that was lost.
      if (session.is_continuation_due !== true && session.continued_at !== at)
        return { decision: "recorded", change };
      return { decision: "continue", change: { ...change, is_continuation_due: false, continued_at: at } };
    }
    case "after_model":
      // The elapsed time is that of the whole turn, not of its last tool call.
      return { decision: "recorded", ...(first === null && { change: { last_after_model_at: at } }) };
    case "agent_stop":
      // A repetition of the event that asked, after an answer that was lost.
      if (asked === at) return { decision: "requested" };
      if (event.is_continuation === true) return { decision: "continuation" };
      if (first === null) return { decision: "no_activity" };
      if (asked !== null && asked >= first) return { decision: "already_requested" };
      if (Date.parse(at) - Date.parse(first) < LIMITS.turn_min_ms) return { decision: "short_turn" };
      return { decision: "requested", change: { last_checkpoint_at: at } };
    default:
      return {
        decision: "recorded",
        ...(event.is_continued_at_prompt === true && { change: { is_continuation_due: true } }),
      };
  }
}

/**
 * The checkpoint message continues the turn, or else the answer to it would be a new turn that is asked again. A message
 * after a restart, when nothing has happened yet, counts as the request of a turn of its own.
 */
function promptChange(
  session: AgentSession,
  { at, is_checkpoint_message }: TurnEvent,
): Partial<AgentSession> {
  if (is_checkpoint_message !== true)
    return { last_after_model_at: null, last_checkpoint_at: null, turn_began_at: at };
  const { last_after_model_at: first, last_checkpoint_at: asked } = session;
  return {
    last_after_model_at: first ?? at,
    last_checkpoint_at: asked === null || asked < at ? at : asked,
  };
}
