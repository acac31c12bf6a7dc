/** The limits of missions: a part of `LIMITS`, where their relations to the others are. */
export const MISSION_LIMITS = {
  missions_limit_max: 100,
  missions_limit_default: 20,
  sorties_limit_max: 1_000,
  sorties_limit_default: 100,
  mission_title_chars_max: 300,
  mission_description_chars_max: 2_000,
  mission_file_chars_max: 512,
  progress_notes_chars_max: 2_000,
  sortie_files_count_max: 100,
  sortie_batch_count_max: 100,
  mission_sorties_count_max: 1_000,
  /** A specialist that reported less than this time ago works: a resumption keeps its progress. */
  specialist_active_ms: 300_000,
  /** All sorties of a mission as JSON, so that its snapshot fits into a checkpoint, and its resumption into one transaction. */
  mission_bytes_max: 450_000,
  /** The locks of a mission are one value of the store. */
  mission_locks_bytes_max: 50_000,
  lock_waiters_count_max: 16,
  lock_purpose_chars_max: 300,
  lock_timeout_ms_min: 1_000,
  lock_timeout_ms_default: 300_000,
  lock_timeout_ms_max: 86_400_000,
  lock_wait_ms_max: 3_600_000,
  message_subject_chars_max: 200,
  message_body_chars_max: 8_000,
  message_recipients_count_max: 16,
  message_timeout_ms_min: 1_000,
  message_timeout_ms_default: 3_600_000,
  message_timeout_ms_max: 604_800_000,
  messages_limit_max: 100,
  messages_limit_default: 20,
  /** Messages that a mission keeps. The place of the oldest one that is over is used again. */
  mission_messages_count_max: 1_000,
  /** Messages that are not delivered. A mission refuses further ones. */
  open_messages_count_max: 200,
  /** The same, as snapshots in JSON. */
  open_messages_bytes_max: 150_000,
  /** The share of one agent in these, unless it coordinates the mission. */
  sender_messages_count_max: 50,
  sender_messages_bytes_max: 40_000,
  /** Events that a subscriber has not acknowledged. With more of them its subscription ends. */
  open_events_count_max: 64,
  mailbox_subscribers_count_max: 16,
  /** An event that a subscriber does not acknowledge for so long ends its subscription. */
  mailbox_event_ms: 86_400_000,
  /** Notices that a resumption remembers, so that it is not repeated for the same lock. */
  mailbox_notices_count_max: 100,
  /** One record of a mission on disk. The largest are its locks, its mailbox and a sortie with many files. */
  mission_record_bytes_max: 500_000,
  /** The records of one command of an import. */
  import_records_count_max: 100,
  /** The same, as Base64. */
  import_records_chars_max: 750_000,
} as const;
