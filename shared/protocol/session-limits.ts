/** The limits of sessions: a part of `LIMITS`, where their relations to the others are. */
export const SESSION_LIMITS = {
  /** The record of a session, which must fit into one value of the store. */
  session_text_chars_max: 240,
  session_prompt_chars_max: 1_000,
  session_files_count_max: 40,
  session_commands_count_max: 20,
  session_recent_count_max: 32,
  /** The sessions of one agent. Agents of hooks have one each. */
  session_count_max: 100,
  /** A session without an event for this time is forgotten. */
  session_kept_ms: 30 * 86_400_000,
} as const;
