/** The dashboards of Grafana: their panels, and the expressions of each panel with a legend. */

/** A unit of Grafana. */
type Unit = "short" | "ms" | "s" | "percentunit" | "bytes" | "reqps" | "ops" | "Bps";

export interface Panel {
  readonly title: string;
  readonly unit: Unit;
  /** Expression → legend; labels in double braces. */
  readonly lines: Readonly<Record<string, string>>;
}

export interface Board {
  readonly title: string;
  readonly panels: readonly Panel[];
}

const RATE = "[$__rate_interval]";

const panel = (title: string, unit: Unit, lines: Panel["lines"]): Panel => ({ title, unit, lines });

/** The number per second, by some labels. */
const rates = (metric: string, by: string, legend = `{{${by}}}`): Panel["lines"] => ({
  [`sum by (${by}) (rate(${metric}${RATE}))`]: legend,
});

/** The usual percentiles of a histogram. `matchers` such as `{op="get"}`. */
const percentiles = (metric: string, matchers = ""): Panel["lines"] =>
  Object.fromEntries(
    [0.5, 0.95, 0.99].map((part) => [
      `histogram_quantile(${part}, sum by (le) (rate(${metric}_bucket${matchers}${RATE})))`,
      `p${part * 100}`,
    ]),
  );

const availability = (kind: "write" | "read"): Panel[] => [
  panel("Error budget left, 30 days", "percentunit", {
    [`fleet:${kind}_error_budget:remaining_ratio30d`]: "left",
  }),
  panel("Failed requests", "percentunit", {
    [`fleet:${kind}_errors:ratio_rate5m`]: "5 minutes",
    [`fleet:${kind}_errors:ratio_rate1h`]: "1 hour",
    [`fleet:${kind}_errors:ratio_rate1d`]: "1 day",
  }),
];

/** By the name of the file. */
export const BOARDS: Readonly<Record<string, Board>> = {
  writes: {
    title: "Writes",
    panels: [
      ...availability("write"),
      panel("Commands by operation", "reqps", rates("fleet_commands_total", "op")),
      panel("Commands by outcome", "reqps", rates("fleet_commands_total", "outcome")),
      panel("Latency", "ms", percentiles("checkpoint_write_latency_ms", '{outcome="ok"}')),
      panel("Requests in flight", "short", {
        'sum(fleet_requests_in_flight{service="writer"})': "writers",
      }),
      panel("Requests over HTTP by status", "reqps", rates("fleet_gateway_requests_total", "status")),
      panel("Latency over HTTP", "ms", percentiles("fleet_gateway_latency_ms")),
    ],
  },
  reads: {
    title: "Reads",
    panels: [
      ...availability("read"),
      panel("Queries by operation", "reqps", rates("fleet_queries_total", "op")),
      panel("Queries by outcome", "reqps", rates("fleet_queries_total", "outcome")),
      panel("Latency of get", "ms", percentiles("checkpoint_read_latency_ms", '{op="get", outcome="ok"}')),
      panel("Latency of all queries", "ms", percentiles("checkpoint_read_latency_ms", '{outcome="ok"}')),
      panel("Requests in flight", "short", {
        'sum(fleet_requests_in_flight{service="reader"})': "readers",
      }),
      panel("Events that the search index lacks", "short", { "max(fleet_index_lag)": "events" }),
    ],
  },
  queue: {
    title: "Queue",
    panels: [
      panel("Oldest queued command", "ms", { "max(fleet_queue_oldest_age_ms)": "age" }),
      panel("Queued commands", "short", { "max(fleet_queue_depth)": "commands" }),
      panel("Put into the queue by writers", "ops", rates("fleet_queue_put_total", "why")),
      panel("Applied from the queue", "ops", rates("fleet_queue_applied_total", "op")),
      panel("Dead letters", "short", { "max(fleet_dead_letters)": "letters" }),
      panel("New dead letters by reason", "ops", rates("fleet_queue_dead_total", "reason")),
      panel("Filled part of the streams", "percentunit", {
        "max by (stream) (fleet_stream_fill_ratio)": "{{stream}}",
      }),
    ],
  },
  handoffs: {
    title: "Handoffs",
    panels: [
      panel("Success", "percentunit", { "min(handoff_success_rate)": "confirmed" }),
      panel("Open handoffs by state", "short", { "max by (state) (fleet_handoffs_open)": "{{state}}" }),
      panel("Transitions", "ops", rates("fleet_handoffs_total", "state")),
      panel("From the request to the acceptance", "ms", percentiles("fleet_handoff_duration_ms")),
      panel("Used context at a handoff", "percentunit", percentiles("fleet_handoff_context_utilization")),
    ],
  },
  recoveries: {
    title: "Recoveries",
    panels: [
      panel("Success, 1 hour", "percentunit", { "fleet:recovery_success:ratio_1h": "completed" }),
      panel("Open recoveries by state", "short", { "max by (state) (fleet_recoveries)": "{{state}}" }),
      panel("Attempts by outcome", "ops", rates("recovery_attempts_total", "outcome")),
      panel("Attempts by class of failure", "ops", rates("recovery_attempts_total", "class")),
      panel("From the end of a lease to the recorded failure", "ms", percentiles("fleet_recovery_detect_ms")),
      panel("From a failure to the next checkpoint", "ms", percentiles("fleet_recovery_resume_ms")),
      panel("Alerts by type", "ops", rates("fleet_alerts_total", "type")),
      panel("Webhooks by outcome", "ops", rates("fleet_webhooks_total", "outcome")),
    ],
  },
  agents: {
    title: "Agents",
    panels: [
      panel("Watched agents", "short", { "max(fleet_agents_watched)": "agents" }),
      panel("Failures by signal", "ops", rates("fleet_failures_total", "signal")),
      panel("Failures by class", "ops", rates("fleet_failures_total", "class")),
      panel("Lost observation", "percentunit", {
        [`max(rate(fleet_watchdog_attention_ms_lost_total${RATE})) / 1000`]: "of the time",
      }),
      panel("Agents of runners", "short", {
        "sum by (agent_type) (fleet_runner_agents)": "{{agent_type}}",
      }),
      panel("Missions", "ops", {
        [`sum(rate(fleet_missions_silent_total${RATE}))`]: "marked as silent or compacted",
        [`sum(rate(fleet_mission_locks_swept_total${RATE}))`]: "locks and waits that ended by time",
        [`sum(rate(fleet_mission_messages_failed_total${RATE}))`]: "messages that were not delivered in time",
      }),
      panel("Ends of runners' agents by class", "ops", rates("fleet_runner_exits_total", "class")),
      panel("Void and refused offers", "ops", {
        ...rates("fleet_runner_offers_void_total", "agent_type", "void: {{agent_type}}"),
        ...rates("fleet_runner_offers_refused_total", "agent_type", "refused: {{agent_type}}"),
      }),
      panel("Decisions on events of sessions", "ops", rates("fleet_turn_events_total", "decision")),
      panel("Connections with a token by outcome", "ops", rates("fleet_signer_requests_total", "outcome")),
    ],
  },
  store: {
    title: "Store",
    panels: [
      panel("Circuit breaker: 0 closed, 1 probing, 2 open", "short", {
        "max(fleet_store_breaker_state)": "state",
      }),
      panel("Transactions that lost a race", "ops", {
        [`sum(rate(fleet_store_conflicts_total${RATE}))`]: "conflicts",
      }),
      panel("Free disk", "bytes", { "min by (disk_of) (fleet_disk_free_bytes)": "{{disk_of}}" }),
      panel("Corrupt and restored checkpoints", "short", {
        "sum(increase(fleet_checkpoint_corrupt_total[1h]))": "corrupt in an hour",
        "sum(increase(fleet_checkpoint_restored_total[1h]))": "restored in an hour",
      }),
      panel("Age of the last scrub", "s", { "max(fleet_scrub_age_seconds)": "age" }),
      panel("Findings of scrubs", "ops", rates("fleet_scrub_findings_total", "kind")),
      panel("Bytes read by scrubs", "Bps", { [`sum(rate(fleet_scrub_bytes_total${RATE}))`]: "bytes" }),
      panel("Oldest audit entry that is not in the audit log", "s", {
        "max(fleet_audit_log_delay_seconds)": "age",
      }),
      panel("Entries appended to the audit log", "ops", {
        [`sum(rate(fleet_audit_log_appended_total${RATE}))`]: "entries",
      }),
      panel("Damaged audit logs", "short", {
        "max(fleet_audit_logs_damaged)": "tenants",
        [`sum by (kind) (increase(fleet_audit_log_damage_total${RATE}))`]: "damaged {{kind}}",
      }),
      panel("Age of the oldest anchor of the audit log", "s", {
        "max by (target) (fleet_audit_anchor_age_seconds)": "{{target}}",
      }),
      panel("Anchors of the audit log", "ops", rates("fleet_audit_anchors_total", "outcome")),
      panel("Checkpoints removed by retention", "ops", {
        [`sum(rate(fleet_retention_removed_total${RATE}))`]: "removed",
        [`sum(rate(fleet_shredded_checkpoints_total${RATE}))`]: "shredded",
        [`sum(rate(fleet_shredded_tasks_total${RATE}))`]: "shredded tasks",
        "max(fleet_retention_backlog)": "backlog",
      }),
      panel("Artifacts", "ops", {
        [`sum(rate(fleet_artifacts_removed_total${RATE}))`]: "artifacts removed",
        [`sum(rate(fleet_artifacts_repaired_total${RATE}))`]: "artifacts repaired",
      }),
      panel("From the commit to the file mirror", "ms", percentiles("fleet_mirror_lag_ms")),
      panel("Failures of the file mirror", "ops", rates("fleet_mirror_failures_total", "cause")),
    ],
  },
  bus: {
    title: "Bus",
    panels: [
      panel("Oldest event that is not on the bus", "ms", { "max(fleet_outbox_oldest_age_ms)": "age" }),
      panel("Events that are not on the bus", "short", { "max(fleet_outbox_depth)": "events" }),
      panel("Events handed to the bus", "ops", {
        [`sum(rate(fleet_outbox_published_total${RATE}))`]: "events",
      }),
      panel("Streams and consumers found altered", "ops", rates("fleet_stream_findings_total", "kind")),
      panel("Busy share of the event loop", "percentunit", {
        "max by (service) (fleet_event_loop_utilization)": "{{service}}",
      }),
      panel("Memory of the processes", "bytes", {
        "max by (service) (fleet_process_resident_memory_bytes)": "{{service}}",
      }),
      panel("Processor time of the processes", "percentunit", {
        [`sum by (service) (rate(fleet_process_cpu_seconds_total${RATE}))`]: "{{service}}",
      }),
    ],
  },
};
