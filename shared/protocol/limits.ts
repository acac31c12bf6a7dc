/**
 * Every limit of the system, in one place, with the relations that must hold between them.
 * A wrong combination stops the process at start, with the reason, instead of losing work later.
 *
 * Names end in their unit: `_bytes`, `_ms`, `_count` or `_chars` before `_max` or `_min`.
 */
export const LIMITS = {
  /** Canonical bytes of one checkpoint. Larger artifacts are referenced, not embedded. */
  checkpoint_bytes_max: 1_000_000,
  /** What the writer itself may add to a checkpoint of the largest size: status, parents, retention. */
  writer_bytes_max: 4_096,
  /** A checkpoint above this is accepted with a warning in the answer. */
  checkpoint_bytes_warn: 100_000,
  /** A request's body as it came over the bus; also the server's `max_payload`. */
  payload_bytes_max: 2_000_000,
  /** One page of a reply; pages end by size as well as by count. */
  reply_bytes_max: 1_500_000,
  depth_max: 64,
  /** Members and items of one message, at all depths; what has more takes seconds to look through. */
  node_count_max: 50_000,
  id_chars_max: 64,
  label_count_max: 64,
  array_items_max: 10_000,
  parent_count_max: 32,
  history_limit_max: 1_000,
  history_limit_default: 20,
  search_limit_max: 100,
  search_limit_default: 20,
  /** Rows of an index that one search request may walk before it answers with a cursor. */
  search_scan_rows_max: 4_000,
  /** Checkpoints, and their bytes, that one search request may open to see whether they match. */
  search_open_count_max: 500,
  search_open_bytes_max: 16_000_000,
  search_text_chars_max: 200,
  /** How long a search waits for the index to reach the position that it was given. */
  search_wait_ms_max: 1_500,
  audit_limit_max: 500,
  audit_limit_default: 100,
  /** Distinct words of one checkpoint that free-text search knows, and the length of one. */
  index_words_max: 200,
  index_word_chars_min: 2,
  index_word_chars_max: 64,
  /** Of one text of a checkpoint, so much is searched for words. */
  index_text_chars_max: 50_000,
  /** A checkpoint's id carries its creation time; it may not lie further ahead of the writer's clock. */
  id_ahead_ms_max: 60_000,
  /** How long a caller of the SDK waits for an answer, over all retries, unless it says otherwise. */
  request_deadline_ms_default: 5_000,
  /** One attempt; the SDK asks again with the same command id. */
  request_attempt_ms_default: 2_000,
  /** A writer's own budget for one command, over all attempts of its transaction. */
  command_deadline_ms: 3_000,
  /** A store that has committed nothing for this long, although commands wait for it, is away; they go into the queue. */
  store_stall_ms: 1_000,
  /** Until when a caller has its answer, whichever it is. */
  command_answer_ms_max: 1_800,
  query_deadline_ms: 3_000,
  /**
   * Requests that one service holds at once; beyond it the answer is UNAVAILABLE with a retry time. No more than it can answer
   * within one attempt of a caller, or it would work for callers that have already asked again.
   */
  requests_in_flight_max: 1_536,
  /** New requests are refused while the oldest one has waited this long. */
  request_wait_ms_max: 1_200,
  overload_retry_ms: 200,
  /** How long a caller's command waits for those of its task that came before it; then the caller is asked to come again. */
  lane_wait_ms_max: 1_100,
  /** How long the record of a command is kept at least; an older command without a record is refused (`shared/records/task/expiry.ts`). */
  idempotency_ms: 48 * 3_600_000,
  /** How long after a command was made it may be sent again, by its caller, a spool or the queue, sure to find its record. */
  redelivery_ms_max: 24 * 3_600_000,
  outbox_partition_count: 8,
  /** Of each partition. All of them together fit into one atomic batch of the bus, which holds 1,000 messages. */
  outbox_batch_count_max: 125,
  index_batch_count_max: 256,
  /** Commands in the queue from which on those that go behind one of them are told to come again. */
  queue_long_count: 256,
  /** Partitions of the queue. Another number would put a task's later commands beside its earlier ones: drain it first. */
  queue_partition_count: 32,
  /** What a queued command leaves of a message for the headers that a dead letter adds to it. */
  queue_headers_bytes_max: 32_768,
  /** Deliveries after which a command is suspected of ending the writers that take it. */
  queue_deliveries_max: 64,
  dead_limit_max: 100,
  dead_limit_default: 20,
  /** Bytes of commands that wait on a machine for a bus, for each agent. */
  spool_bytes_max: 64 * 1024 * 1024,
  /** Letters that one request may look through for those of its tenant. */
  dead_scan_max: 1_000,
  /** Of the error in a dead letter's header. */
  dead_error_chars_max: 8_000,
  /** Bytes of a value that stay in a row; larger bodies are stored in chunks. */
  inline_bytes_max: 60_000,
  chunk_bytes_max: 60_000,
  /** Below this, compressing takes longer than writing what it would save. */
  compress_bytes_min: 8_192,
  /** Of the text that says why a task is handed off, or why a handoff was taken back. */
  handoff_reason_chars_max: 2_000,
  /** When the coordinators look at a request by themselves, in case that its event never reached one. */
  handoff_overlooked_ms: 2_000,
  handoffs_limit_max: 100,
  handoffs_limit_default: 20,
  /** Records that one list may look through for those that it is asked for. */
  handoffs_scan_count_max: 2_000,
  /** Recoveries are listed with all of their tasks' heads. */
  recoveries_limit_max: 100,
  recoveries_limit_default: 20,
  recoveries_scan_count_max: 2_000,
  /** Checkpoints, and their bytes, that are verified on the way back from the one that is handed off. */
  chain_count_max: 500,
  chain_bytes_max: 16_000_000,
  /** Of a continuation prompt, as it stands in the JSON of its offer. */
  prompt_bytes_max: 40_000,
  /** Of an offer as it waits in the outbox, which is one value of the store. */
  offer_bytes_max: 60_000,
  offer_attempt_count_max: 100,
  /** How long a taker of an offer may be silent before somebody else gets it. */
  offer_ack_wait_ms: 10_000,
  /** Offers of one agent type that its takers may have in hand at once, all together. */
  offers_pending_count_max: 1_000,
  /** Of any time in the policy. */
  policy_ms_max: 7 * 86_400_000,
  /** Of the pause before a task whose attempts are spent is tried once more; it comes back for ever. */
  half_open_ms_min: 60_000,
  heartbeat_ms: 2_000,
  /** What is larger is not heard: of thousands of agents the last one is remembered as it came. */
  heartbeat_bytes_max: 4_096,
  /** A continuation prompt where nobody says otherwise, and the longest and shortest that may be asked for. */
  prompt_tokens_default: 2_000,
  prompt_budget_max: 1_000_000,
  /** Of one quoted text; it is cut there before anything else is weighed. */
  prompt_text_chars_max: 200_000,
  /** A quoted line is folded after so many characters; also what a tokenizer, whose time grows with the square, gets as one word. */
  prompt_line_chars_max: 240,
  /** Of one workspace: what a snapshot takes in, and how long git may take for one answer. */
  workspace_dirty_count_max: 500,
  workspace_files_count_max: 200,
  workspace_file_bytes_max: 8_000_000,
  workspace_hashed_bytes_max: 64_000_000,
  workspace_git_bytes_max: 4_000_000,
  workspace_git_ms_max: 5_000,
  workspace_findings_count_max: 200,
  /** How long a listener remembers an agent that says nothing, and how many agents. */
  agent_remembered_ms: 10 * 60_000,
  agents_remembered_count_max: 20_000,
  agents_limit_max: 500,
  agents_limit_default: 100,
  /** Tasks that one list of agents may look through for those that somebody owns. */
  agents_scan_max: 1_000,
  /** How long the stream keeps alerts. */
  alerts_kept_ms: 30 * 86_400_000,
  /** Of one alert; what is larger none of our services wrote. */
  alert_bytes_max: 8_192,
  /** Of what an agent said at its end, in an alert. */
  alert_details_chars_max: 500,
  alerts_limit_max: 100,
  alerts_limit_default: 20,
  /** Alerts that one request may look through for those that it is asked for. */
  alerts_scan_count_max: 2_000,
  /** What somebody says who acknowledges alerts, and how many at once. */
  alert_note_chars_max: 1_000,
  alert_acks_count_max: 100,
  webhooks_count_max: 32,
  webhook_tenants_count_max: 64,
  /** What one step of the scrubber reads at most, but for one checkpoint that is larger. */
  scrub_step_bytes_max: 256_000,
  scrub_step_rows_max: 1_000,
  scrub_step_tasks_max: 32,
  /** What a task counts at least against the scrubber's rate: of many small tasks it is their number that costs. */
  scrub_task_bytes_min: 10_000,
  scrub_findings_of_task_max: 20,
  scrub_findings_limit_max: 500,
  scrub_findings_limit_default: 50,
  duty_lease_ms: 5_000,
  duty_renew_ms: 1_500,
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
  [LIMITS.reply_bytes_max < LIMITS.payload_bytes_max, "a reply must fit into one message"],
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
  [
    LIMITS.store_stall_ms < LIMITS.request_wait_ms_max,
    "a store that is away must not look like too much work",
  ],
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
    LIMITS.lane_wait_ms_max + 300 <= LIMITS.command_answer_ms_max,
    "a command that waited for others of its task must still have time for the store",
  ],
  [
    LIMITS.prompt_bytes_max + LIMITS.handoff_reason_chars_max * 6 + 4_000 <= LIMITS.offer_bytes_max,
    "a prompt of the largest size, and what goes with it, must fit into an offer, however JSON writes them",
  ],
  [LIMITS.offer_bytes_max <= LIMITS.inline_bytes_max, "an offer must fit into one value of the store"],
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
    "what an agent said must fit into an alert, however JSON writes it",
  ],
  [LIMITS.duty_renew_ms * 3 <= LIMITS.duty_lease_ms, "a lease must survive two lost renewals"],
];

for (const [holds, why] of relations) {
  if (!holds) throw new RangeError(`protocol limits contradict each other: ${why}`);
}
