/**
 * All limits of the system, with the relations that must hold between them.
 * A wrong combination stops the process at start, with the reason, instead of losing work later.
 *
 * Names end in their unit: `_bytes`, `_ms`, `_count` or `_chars` before `_max` or `_min`.
 */

import { ACCESS_LOG_LIMITS } from "./accesslog-limits.ts";
import { ANCHOR_LIMITS } from "./anchor-limits.ts";
import { DIAGNOSIS_LIMITS } from "./diagnosis-limits.ts";
import { MISSION_LIMITS } from "./mission-limits.ts";
import { OFFER_LIMITS } from "./offer-limits.ts";
import { SEARCH_LIMITS } from "./search-limits.ts";
import { SESSION_LIMITS } from "./session-limits.ts";
import { WORKSPACE_LIMITS } from "./workspace-limits.ts";

export const LIMITS = {
  /** Canonical bytes of one checkpoint. Larger artifacts are referenced, not embedded. */
  checkpoint_bytes_max: 1_000_000,
  /** The bytes that the writer may add to a checkpoint of the largest size: status, parents, retention. */
  writer_bytes_max: 4_096,
  /** A larger checkpoint is accepted with a warning in the answer. */
  checkpoint_bytes_warn: 100_000,
  /** The body of a message on the bus. */
  payload_bytes_max: 2_000_000,
  /**
   * The server's `max_payload`: a body of the largest size with its headers. A body above its own limit is then
   * answered as TOO_LARGE; above this one the server ends the connection.
   */
  message_bytes_max: 2_097_152,
  /** One page of a reply. Pages end by size as well as by count. */
  reply_bytes_max: 1_500_000,
  depth_max: 64,
  /** Members and items of one message, at all depths. A message with more takes seconds to check. */
  node_count_max: 50_000,
  /** A member or an item takes two bytes of JSON at least. */
  reply_node_count_max: 750_000,
  id_chars_max: 64,
  label_count_max: 64,
  array_items_max: 10_000,
  /** One artifact, and the part of it that one message carries as Base64. */
  artifact_bytes_max: 1_073_741_824,
  artifact_part_bytes: 1_048_576,
  artifact_name_chars_max: 255,
  /** One artifact in one request to the HTTP API. Larger ones are uploaded in parts. */
  artifact_request_bytes_max: 67_108_864,
  /** References of one checkpoint. */
  artifact_count_max: 64,
  artifacts_limit_max: 100,
  artifacts_limit_default: 20,
  parent_count_max: 32,
  /** A hundred years. */
  retention_days_max: 36_600,
  retention_keep_max: 1_000,
  retention_max_max: 5_000,
  /** Checkpoints of one task that one transaction removes. */
  removal_count_max: 16,
  /** The steps of the search for what a recovery needs. */
  retention_ladder_max: 200,
  holds_limit_max: 500,
  holds_limit_default: 100,
  prunable_limit_max: 500,
  prunable_limit_default: 100,
  /** The bytes of checkpoints that one preview of a prune opens. */
  prunable_read_bytes_max: 4_000_000,
  ...SEARCH_LIMITS,
  /** The fence of an imported task; no fleet reaches it, and the fences after it are still exact. */
  origin_fence_max: 1_000_000_000_000,
  /** One line of an export file. */
  export_line_bytes_max: 1_500_000,
  audit_limit_max: 500,
  audit_limit_default: 100,
  /** Distinct words of one checkpoint in free-text search, and the length of a word. */
  index_words_max: 200,
  index_word_chars_min: 2,
  index_word_chars_max: 64,
  /** The part of one text of a checkpoint that is searched for words. */
  index_text_chars_max: 50_000,
  /** A checkpoint's id contains its creation time, which may not lie further ahead of the writer's clock. */
  id_ahead_ms_max: 60_000,
  /** The default wait of the SDK for an answer, over all retries. */
  request_deadline_ms_default: 5_000,
  /** One attempt of the SDK. The next one uses the same command id. */
  request_attempt_ms_default: 2_000,
  /** The writer's budget for one command, over all attempts of its transaction. */
  command_deadline_ms: 3_000,
  /**
   * A store that commits nothing for this long while commands wait counts as unavailable, and commands go to
   * the queue.
   */
  store_stall_ms: 1_000,
  /** The time within which a caller has an answer of any kind. */
  command_answer_ms_max: 1_800,
  query_deadline_ms: 3_000,
  ...DIAGNOSIS_LIMITS,
  /**
   * Requests that one service holds at once. Further ones are answered UNAVAILABLE with a retry time. No more
   * than the service can answer within one attempt, or it would work for callers that have already asked
   * again.
   */
  requests_in_flight_max: 1_536,
  /** New requests are refused while the oldest one has waited this long. */
  request_wait_ms_max: 1_200,
  overload_retry_ms: 200,
  /** The wait of a command for earlier ones of its task. Then the caller is asked to retry. */
  task_wait_ms_max: 1_100,
  /**
   * The minimum age at which the record of a command expires. An older command without a record is refused
   * (`shared/records/task/expiry.ts`).
   */
  idempotency_ms: 48 * 3_600_000,
  /**
   * The maximum age at which a command is sent again by its caller, a spool or the queue, so that it still
   * finds its record.
   */
  redelivery_ms_max: 24 * 3_600_000,
  outbox_partition_count: 8,
  /**
   * Events of one partition in a batch. Those of all partitions fit into one atomic batch of the bus, which
   * holds 1,000 messages.
   */
  outbox_batch_count_max: 125,
  index_batch_count_max: 256,
  /**
   * The length of the queue from which callers whose commands must follow a queued one are asked to retry.
   */
  queue_long_count: 256,
  /**
   * Partitions of the queue. Drain the queue before a change: another number would separate later commands of
   * a task from earlier ones.
   */
  queue_partition_count: 32,
  /** The bytes of a message that are left for the headers that a dead letter adds to a command. */
  queue_headers_bytes_max: 32_768,
  /** Deliveries after which a command is suspected of crashing the writers that apply it. */
  queue_deliveries_max: 64,
  dead_limit_max: 100,
  dead_limit_default: 20,
  /** The spool of one agent on one machine. */
  spool_bytes_max: 64 * 1024 * 1024,
  /** The free space that a spool leaves on its disk: for whole lines of other processes, and for the marks of its sending. */
  spool_free_bytes_min: 1024 * 1024,
  /** Letters that one request may scan for those of its tenant. */
  dead_scan_max: 1_000,
  /** The path of a wrong field, and its value. */
  error_field_chars_max: 500,
  /** Any other variable text of an error. */
  error_text_chars_max: 4_000,
  /** The error in a dead letter's header. */
  dead_error_chars_max: 8_000,
  /** A value that stays in its row. Larger bodies are stored in chunks. */
  inline_bytes_max: 60_000,
  chunk_bytes_max: 60_000,
  /** Compressing a smaller value takes longer than writing the bytes that it would save. */
  compress_bytes_min: 8_192,
  /** The reason of a handoff, or of its cancellation. */
  handoff_reason_chars_max: 2_000,
  /** The age at which the sweep takes up a requested handoff whose event reached no coordinator. */
  handoff_overlooked_ms: 2_000,
  handoffs_limit_max: 100,
  handoffs_limit_default: 20,
  /** Records that one list may scan for matches. */
  handoffs_scan_count_max: 2_000,
  /** Tasks are listed with their whole heads, and their newest checkpoints are read. */
  tasks_limit_max: 100,
  tasks_limit_default: 20,
  tasks_scan_count_max: 2_000,
  /** Recoveries are listed with the whole heads of their tasks. */
  recoveries_limit_max: 100,
  recoveries_limit_default: 20,
  ...MISSION_LIMITS,
  recoveries_scan_count_max: 2_000,
  /** Ancestors, and their bytes, that are verified before a checkpoint is handed over. */
  chain_count_max: 500,
  chain_bytes_max: 16_000_000,
  /** A continuation prompt in the JSON of its offer. */
  prompt_bytes_max: 40_000,
  ...OFFER_LIMITS,
  ...ANCHOR_LIMITS,
  /** The longest time that a policy may contain. */
  policy_ms_max: 7 * 86_400_000,
  /** The shortest pause before a probe of a blocked task. Probes repeat without end. */
  half_open_ms_min: 60_000,
  heartbeat_ms: 2_000,
  /** A larger heartbeat is ignored, because the last one of each of thousands of agents is kept in memory. */
  heartbeat_bytes_max: 4_096,
  /** The default length of a continuation prompt, and the longest that can be requested. */
  prompt_tokens_default: 2_000,
  prompt_budget_max: 1_000_000,
  /** One quoted text, which is cut to this length before the budget is applied. */
  prompt_text_chars_max: 200_000,
  /**
   * The length at which a quoted line is folded. It also bounds the words of the tokenizer, whose time grows
   * with their square.
   */
  prompt_line_chars_max: 240,
  ...WORKSPACE_LIMITS,
  /** The time for which a silent agent is remembered, and the number of remembered agents. */
  agent_remembered_ms: 10 * 60_000,
  agents_remembered_count_max: 20_000,
  agents_limit_max: 500,
  agents_limit_default: 100,
  /** Tasks that one list of agents may scan for owned ones. */
  agents_scan_max: 1_000,
  /** The time that an agent must work in a turn before it is asked for a checkpoint (seed 001, invariant 1). */
  turn_min_ms: 30_000,
  /** The time between the restart of an agent and the checkpoint message (seed 001, invariant 6). */
  restart_injection_ms: 5_000,
  ...SESSION_LIMITS,
  ...ACCESS_LOG_LIMITS,
  /** The age at which the stream drops alerts. */
  alerts_kept_ms: 30 * 86_400_000,
  /** One alert. No service of the fleet writes a larger one. */
  alert_bytes_max: 8_192,
  /** The report of a failed agent in an alert. */
  alert_details_chars_max: 500,
  events_limit_max: 500,
  events_limit_default: 100,
  alerts_limit_max: 100,
  alerts_limit_default: 20,
  /** Alerts that one request may scan for matches. */
  alerts_scan_count_max: 2_000,
  /** The note of an acknowledgement, and the alerts in one. */
  alert_note_chars_max: 1_000,
  alert_acks_count_max: 100,
  access_acts_count_max: 100,
  webhooks_count_max: 32,
  webhook_tenants_count_max: 64,
  /** The work of one step of the scrubber, except for a single checkpoint that is larger. */
  scrub_step_bytes_max: 256_000,
  scrub_step_rows_max: 1_000,
  scrub_step_tasks_max: 32,
  /**
   * The bytes that a task counts at least against the scrubber's rate, because many small tasks cost by their
   * number.
   */
  scrub_task_bytes_min: 10_000,
  scrub_findings_of_task_max: 20,
  scrub_findings_limit_max: 500,
  scrub_findings_limit_default: 50,
  signing_keys_max: 1_000,
  /** Commits that one signature covers. */
  signature_batch_count_max: 256,
  leader_lease_ms: 5_000,
  leader_renew_ms: 1_500,
} as const;

const relations: [holds: boolean, why: string][] = [
  [
    LIMITS.checkpoint_bytes_max * 2 <= LIMITS.payload_bytes_max,
    "a checkpoint and its envelope must fit into one message",
  ],
  [
    LIMITS.reply_bytes_max >= LIMITS.checkpoint_bytes_max + 100_000,
    "one checkpoint of the largest size must fit into a reply",
  ],
  [
    LIMITS.export_line_bytes_max >= LIMITS.checkpoint_bytes_max + 100_000,
    "one checkpoint of the largest size must fit into a line of an export",
  ],
  [LIMITS.reply_bytes_max < LIMITS.payload_bytes_max, "a reply must fit into one message"],
  [
    (LIMITS.artifact_part_bytes * 4) / 3 + 1_000 <= LIMITS.reply_bytes_max,
    "one part of an artifact must fit into a reply",
  ],
  [
    LIMITS.payload_bytes_max + LIMITS.queue_headers_bytes_max <= LIMITS.message_bytes_max,
    "the largest body must leave room for headers",
  ],
  [
    LIMITS.idempotency_ms >= LIMITS.redelivery_ms_max + LIMITS.id_ahead_ms_max,
    "a redelivered command must find its idempotency record",
  ],
  [
    LIMITS.redelivery_ms_max > LIMITS.request_deadline_ms_default + LIMITS.command_deadline_ms,
    "a caller must be able to ask again until its deadline",
  ],
  [
    LIMITS.command_deadline_ms < LIMITS.request_deadline_ms_default,
    "the writer must give up before its caller does, or an answer would come too late",
  ],
  [LIMITS.index_batch_count_max <= 256, "an entry's place in its step of the index is kept in one byte"],
  [
    LIMITS.search_wait_ms_max < LIMITS.request_attempt_ms_default,
    "a search must stop waiting before its caller asks again",
  ],
  [
    LIMITS.search_open_bytes_max >= LIMITS.reply_bytes_max,
    "a search must be able to open what one page can hold",
  ],
  [
    LIMITS.request_wait_ms_max < LIMITS.request_attempt_ms_default,
    "a request must be answered or refused before its caller asks again",
  ],
  [LIMITS.store_stall_ms < LIMITS.request_wait_ms_max, "an unavailable store must not look like overload"],
  [
    LIMITS.store_stall_ms + 500 <= LIMITS.command_answer_ms_max,
    "a command that waited for the store must still have the time to be queued",
  ],
  [
    LIMITS.command_answer_ms_max < LIMITS.request_attempt_ms_default,
    "a command must be queued before its caller asks again",
  ],
  [
    LIMITS.dead_error_chars_max * 2 <= LIMITS.queue_headers_bytes_max,
    "a queued command of the largest size must fit into a dead letter",
  ],
  [
    LIMITS.task_wait_ms_max + 300 <= LIMITS.command_answer_ms_max,
    "a command that waited for others of its task must still have time for the store",
  ],
  [
    LIMITS.prompt_bytes_max + LIMITS.handoff_reason_chars_max * 6 + 4_000 <= LIMITS.offer_bytes_max,
    "a prompt of the largest size and its envelope must fit into an offer, even with every character escaped in JSON",
  ],
  [LIMITS.offer_bytes_max <= LIMITS.inline_bytes_max, "an offer must fit into one value of the store"],
  [
    // UTF-8 writes a character as three bytes at most, and a surrogate pair as four.
    3 *
      ((LIMITS.session_files_count_max + LIMITS.session_commands_count_max + 2) *
        LIMITS.session_text_chars_max +
        3 * LIMITS.session_prompt_chars_max) <=
      LIMITS.inline_bytes_max,
    "the record of a session must fit into one value of the store",
  ],
  [
    LIMITS.access_log_block_bytes_max + 4_000 <= LIMITS.inline_bytes_max,
    "a block of the access log must fit into one value of the store",
  ],
  [
    LIMITS.workspace_file_bytes_max <= LIMITS.workspace_hashed_bytes_max,
    "a file of the largest size must be among those that are hashed",
  ],
  [
    // JSON writes some characters as six.
    LIMITS.alerts_limit_max * (LIMITS.alert_bytes_max + LIMITS.alert_note_chars_max * 6 + 300) <=
      LIMITS.reply_bytes_max,
    "a page of the largest alerts must fit into a reply",
  ],
  [
    LIMITS.alert_details_chars_max * 6 + 2_000 <= LIMITS.alert_bytes_max,
    "the report of an agent must fit into an alert, even with every character escaped in JSON",
  ],
  [
    LIMITS.mission_bytes_max +
      LIMITS.mission_locks_bytes_max +
      LIMITS.open_messages_bytes_max +
      LIMITS.open_events_count_max *
        (LIMITS.mailbox_subscribers_count_max * (LIMITS.id_chars_max + 10) + 300) +
      200_000 <=
      LIMITS.checkpoint_bytes_max,
    "the snapshot of a mission must fit into a checkpoint",
  ],
  [
    LIMITS.diagnosis_part_ms + 1_000 <= LIMITS.diagnosis_ms,
    "a service whose store does not answer must still report that in time",
  ],
  [
    LIMITS.clock_skew_ms_max < LIMITS.id_ahead_ms_max,
    "clocks must be reported as wrong before ids are refused for it",
  ],
  [LIMITS.leader_renew_ms * 3 <= LIMITS.leader_lease_ms, "a lease must survive two lost renewals"],
];

for (const [holds, why] of relations) {
  if (!holds) throw new RangeError(`protocol limits contradict each other: ${why}`);
}
