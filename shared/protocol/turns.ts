/**
 * The turns of an agent session (seed 001): the canonical events that the hooks of every vendor are mapped to, and the
 * state that the fleet keeps of a session. A turn begins with a prompt and ends when the agent stops.
 */
import { z } from "zod";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";

/** The canonical events, and what each does to the state of the session. */
export const TURN_EVENTS = {
  session_start: "A session begins, or continues after a restart or a compaction. The state stays.",
  user_prompt_submit:
    "A prompt begins a turn. It clears both times, unless it contains the checkpoint message.",
  after_model: "The model has answered and a tool runs. The first one of a turn is recorded.",
  agent_stop: "The agent ended its turn. The fleet decides whether it asks for a checkpoint.",
  pre_compact: "The vendor is about to shorten the context. The work is saved at once.",
  agent_error: "The vendor ended the turn with an error, such as a rate limit. The work is saved at once.",
  session_end: "The session ended. The work is saved at once.",
} as const;
export type TurnEventType = keyof typeof TURN_EVENTS;
export const TURN_EVENT_TYPES = Object.keys(TURN_EVENTS) as [TurnEventType, ...TurnEventType[]];

const line = (chars: number) => z.string().max(chars, `at most ${chars} characters`);
const moment = z.iso.datetime({ offset: false, error: "a UTC time such as 2026-01-24T10:30:00.000Z" });
const tokens = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

const commandSchema = z.looseObject({
  command: line(LIMITS.session_text_chars_max),
  /** false: it failed. Absent: the vendor does not report it. */
  passed: z.boolean().optional(),
  /** True for a command that runs tests. */
  is_test: z.boolean().optional(),
});

/** What the hooks saw since the last event. Its texts contain no secrets that the reporter can recognise. */
export const activitySchema = z.looseObject({
  /** The words of the user. The first prompt of a session names its goal. */
  prompt: line(LIMITS.session_prompt_chars_max).optional(),
  /** The last words of the model. */
  message: line(LIMITS.session_prompt_chars_max).optional(),
  files: z.array(line(LIMITS.session_text_chars_max)).max(LIMITS.session_files_count_max).optional(),
  commands: z.array(commandSchema).max(LIMITS.session_commands_count_max).optional(),
  tool_calls: z.int().min(0).max(LIMITS.session_files_count_max).optional(),
  model: line(200).optional(),
  context_tokens: tokens.optional(),
  context_limit: tokens.optional(),
  input_tokens: tokens.optional(),
  output_tokens: tokens.optional(),
  cached_tokens: tokens.optional(),
});
export type Activity = z.output<typeof activitySchema>;

/** An event of a session. Repeated with the same time, it has the same answer and no further effect. */
export const turnEventQuerySchema = z.looseObject({
  session_id: tokenSchema,
  event: z.enum(TURN_EVENT_TYPES, { error: `one of ${TURN_EVENT_TYPES.join(", ")}` }),
  /** When the event happened, by the clock of the agent's machine. Refused if it is ahead of the fleet's clock. */
  at: moment,
  vendor: tokenSchema,
  task_id: tokenSchema.optional(),
  /** The working folder, for the next session in it. */
  folder: line(LIMITS.session_text_chars_max).optional(),
  /** The machine of the folder: the same path on another one is another folder. */
  machine: tokenSchema.optional(),
  /** The prompt contains the checkpoint message. */
  is_checkpoint_message: z.boolean().optional(),
  /** The agent continues because a hook asked it to. */
  is_continuation: z.boolean().optional(),
  /** Why the session ended or failed, in the vendor's word. */
  reason: line(100).optional(),
  /** The context is new and the agent's program takes no answer to this event: the next prompt is to carry the work. */
  is_continued_at_prompt: z.boolean().optional(),
  activity: activitySchema.optional(),
});
export type TurnEvent = z.output<typeof turnEventQuerySchema>;

export const TURN_DECISIONS = {
  requested: "The agent is asked for a checkpoint.",
  already_requested: "The agent was asked in this turn, and has begun nothing new since.",
  short_turn: "The agent worked for less than the minimum.",
  no_activity: "The agent used no tool in this turn.",
  continuation: "The agent continues because a hook asked it to.",
  continue: "The prompt begins a new context. It carries the work of the old one.",
  out_of_date: "A later event of the session was recorded before.",
  recorded: "The event decides nothing.",
} as const;
export type TurnDecision = keyof typeof TURN_DECISIONS;

export const sessionSchema = z.looseObject({
  agent_id: z.string(),
  session_id: z.string(),
  vendor: z.string(),
  task_id: z.string().nullable(),
  folder: z.string().nullable(),
  /** Absent in sessions of earlier versions. */
  machine: z.string().nullable().optional(),
  /** The first `after_model` of the turn. null: none yet. */
  last_after_model_at: z.string().nullable(),
  /** When the agent was last asked for a checkpoint. null: not in this turn. */
  last_checkpoint_at: z.string().nullable(),
  /** The prompt that began the turn. Earlier events belong to earlier turns. */
  turn_began_at: z.string().nullable(),
  /** The newest event after which the work was to be saved. */
  last_saved_at: z.string().nullable(),
  /** True if something was done since then. */
  is_unsaved: z.boolean(),
  last_event_at: z.string(),
  /** The newest events, by type and time, so that a repeated one is known. */
  recent_events: z.array(z.string()),
  ended_at: z.string().nullable(),
  end_reason: z.string().nullable(),
  /** True if the next prompt is to carry the work of the old context. Absent in sessions of earlier versions, like the next two. */
  is_continuation_due: z.boolean().optional(),
  /** The last prompt that carried it. */
  continued_at: z.string().nullable().optional(),
  /** The session before this one in the folder when it began. */
  previous_session: z.looseObject({ agent_id: z.string(), session_id: z.string() }).nullable().optional(),
  activity: z.looseObject({
    goal: z.string().nullable(),
    prompt: z.string().nullable(),
    message: z.string().nullable(),
    files: z.array(z.string()),
    commands: z.array(commandSchema.extend({ at: z.string() })),
    tool_calls: z.int(),
    usage: z.record(z.string(), z.union([z.number(), z.string()])),
  }),
});
/** Stored for each session, with a bounded size. */
export type AgentSession = z.output<typeof sessionSchema>;

export const turnResultSchema = z.looseObject({
  decision: z.enum(Object.keys(TURN_DECISIONS) as [TurnDecision, ...TurnDecision[]]),
  /** The work is to be saved now. */
  save: z.boolean(),
  session: sessionSchema,
  /** The session before this one in the same folder. null: none, or not asked for. */
  previous: sessionSchema.nullable(),
});
export type TurnResult = z.output<typeof turnResultSchema>;
