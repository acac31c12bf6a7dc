/** The limits of the access log: a part of `LIMITS`, where their relations to the others are. */
export const ACCESS_LOG_LIMITS = {
  /** The longest time for which an entry waits in memory for the others of its block. */
  access_log_wait_ms: 100,
  /** With this many entries a block is written at once. */
  access_log_block_count_max: 500,
  /** The text of one block. */
  access_log_block_bytes_max: 48_000,
  /** Entries of one tenant that one process holds in memory while they cannot be written. */
  access_log_held_count_max: 10_000,
  /** The same, of all tenants of the process. */
  access_log_held_total_max: 50_000,
  /** A session without an entry for this time ends, so an open one shows that there were reads shortly before. */
  access_log_idle_ms: 60_000,
  /** Equal refusals and repeated reads of one thing within this time are one entry with their number. */
  access_log_repeat_ms: 60_000,
  /** The different ones of a tenant that one process counts. Other refusals of the same time are counted together. */
  access_log_repeat_count_max: 1_000,
  /** The chain of the tenant states the newest block at most once in this time. */
  access_log_statement_ms: 3_600_000,
  /** Six years: HIPAA, 164.316(b)(2)(i). */
  access_log_days_default: 2_192,
  access_log_limit_max: 500,
  access_log_limit_default: 50,
  access_log_blocks_limit_max: 100,
  access_log_blocks_limit_default: 20,
  /** Blocks that one list may read for matches. */
  access_log_scan_count_max: 100,
  /** Refusals in one report. */
  access_log_report_count_max: 100,
} as const;
