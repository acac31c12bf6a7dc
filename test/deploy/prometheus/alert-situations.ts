/** For each alert the time series with which it fires, in the notation of promtool. */

/** Series → values. */
export type Series = Readonly<Record<string, string>>;

export interface Situation {
  readonly series: Series;
  /** Absent: an hour. */
  readonly at?: string;
  /** The time between two values. Absent: a minute. */
  readonly every?: string;
  /** Series of a healthy fleet that are missing. */
  readonly without?: RegExp;
}

const COMMANDS = (outcome: string) => `fleet_commands_total{op="create", outcome="${outcome}"}`;
const QUERIES = (outcome: string) => `fleet_queries_total{op="get", outcome="${outcome}"}`;
const steady = (value: number) => `${value}x300`;
const growing = (step: number, from = 0) => `${from}${step < 0 ? "" : "+"}${step}x300`;
/** No event for 50 minutes, and then some. */
const sudden = (value: number) => `0x50 ${value}x250`;
/** All samples of a histogram are above its buckets, except the last one. */
const above = (metric: string, labels: string, bound: number): Series => ({
  [`${metric}_bucket{${labels}le="${bound}"}`]: steady(0),
  [`${metric}_bucket{${labels}le="${bound * 10}"}`]: growing(60),
  [`${metric}_bucket{${labels}le="+Inf"}`]: growing(60),
});

/** No alert fires. */
export const HEALTHY: Series = {
  ...Object.fromEntries(
    ["writer", "reader", "coordinator", "watchdog"].map((service) => [
      `fleet_process_start_time_seconds{service="fleet-${service}"}`,
      steady(1),
    ]),
  ),
  [COMMANDS("ok")]: growing(6_000),
  [COMMANDS("FENCED")]: growing(600),
  [QUERIES("ok")]: growing(6_000),
  'fleet_gateway_requests_total{op="list", status="200"}': growing(60),
  'checkpoint_write_latency_ms_bucket{op="create", outcome="ok", le="20"}': growing(60),
  'checkpoint_write_latency_ms_bucket{op="create", outcome="ok", le="+Inf"}': growing(60),
  'checkpoint_read_latency_ms_bucket{op="get", outcome="ok", le="5"}': growing(60),
  'checkpoint_read_latency_ms_bucket{op="get", outcome="ok", le="+Inf"}': growing(60),
  'fleet_mirror_lag_ms_bucket{le="1000"}': growing(60),
  'fleet_mirror_lag_ms_bucket{le="+Inf"}': growing(60),
  'fleet_recovery_detect_ms_bucket{le="1000"}': growing(1),
  'fleet_recovery_detect_ms_bucket{le="+Inf"}': growing(1),
  fleet_queue_oldest_age_ms: steady(500),
  fleet_outbox_oldest_age_ms: steady(20),
  fleet_dead_letters: steady(0),
  'fleet_stream_fill_ratio{stream="FLEET_QUEUE"}': steady(0.1),
  'fleet_stream_findings_total{kind="altered", repaired="true"}': sudden(1),
  fleet_index_lag: steady(5),
  fleet_audit_log_delay_seconds: steady(3),
  fleet_audit_logs_damaged: steady(0),
  'fleet_audit_anchor_age_seconds{target="timestamp"}': steady(3_000),
  'fleet_audit_anchor_interval_seconds{target="timestamp"}': steady(3_600),
  'fleet_audit_logs_cut{target="timestamp"}': steady(0),
  'recovery_attempts_total{class="crash", outcome="completed"}': growing(1),
  'recovery_attempts_total{class="crash", outcome="blocked"}': steady(1),
  'fleet_recoveries{state="waiting"}': steady(1),
  'fleet_recoveries{state="attempted"}': steady(3),
  'fleet_recoveries{state="blocked"}': steady(0),
  handoff_success_rate: steady(0.97),
  'fleet_handoffs_open{state="offered"}': steady(4),
  fleet_agents_watched: steady(100),
  'fleet_failures_total{class="crash", signal="exit_report"}': growing(0.1),
  fleet_watchdog_attention_ms_lost_total: growing(10),
  'fleet_signer_requests_total{outcome="issued"}': growing(10),
  'fleet_signer_requests_total{outcome="expired"}': growing(10),
  'fleet_disk_free_bytes{disk_of="store"}': steady(50_000_000_000),
  fleet_store_breaker_state: steady(0),
  fleet_store_conflicts_total: growing(20),
  fleet_checkpoint_corrupt_total: steady(0),
  fleet_scrub_age_seconds: growing(60),
  fleet_retention_last_run_timestamp_seconds: steady(1),
  fleet_retention_backlog: steady(0),
  fleet_shreddings_kept: steady(0),
  fleet_shreddings_failed: steady(0),
  'fleet_access_entries_total{outcome="written"}': growing(600),
  'fleet_access_entries_total{outcome="lost"}': steady(0),
  fleet_access_failures_total: steady(0),
  'fleet_alerts_total{type="HANDOFF_FAILED", severity="warning"}': sudden(1),
  'fleet_webhooks_total{hook="pager", outcome="delivered"}': growing(1),
};

export const FIRING: Readonly<Record<string, Situation>> = {
  FleetWriteBudgetBurnsFast: { series: { [COMMANDS("UNAVAILABLE")]: growing(12) } },
  FleetWriteBudgetBurns: { series: { [COMMANDS("TIMEOUT")]: growing(2.4) }, at: "4h" },
  FleetReadBudgetBurnsFast: { series: { [QUERIES("INTERNAL")]: growing(12) } },
  FleetReadBudgetBurns: { series: { [QUERIES("TIMEOUT")]: growing(2.4) }, at: "4h" },
  FleetWritesSlow: {
    series: above("checkpoint_write_latency_ms", 'op="create", outcome="ok", ', 200),
    without: /^checkpoint_write/,
  },
  FleetReadsSlow: {
    series: above("checkpoint_read_latency_ms", 'op="get", outcome="ok", ', 20),
    without: /^checkpoint_read/,
  },
  FleetWriterDown: { series: {}, without: /fleet-writer/ },
  FleetReaderDown: { series: {}, without: /fleet-reader/ },
  FleetCoordinatorDown: { series: {}, without: /fleet-coordinator/ },
  FleetWatchdogDown: { series: {}, without: /^fleet_recoveries/ },
  FleetRestarts: { series: { 'fleet_process_start_time_seconds{service="fleet-gateway"}': growing(60) } },
  FleetGatewayFails: {
    series: { 'fleet_gateway_requests_total{op="get", status="503"}': growing(6) },
  },
  FleetQueueOld: { series: { fleet_queue_oldest_age_ms: growing(60_000) } },
  FleetEventsLate: { series: { fleet_outbox_oldest_age_ms: growing(60_000) } },
  FleetDeadLetters: { series: { fleet_dead_letters: steady(2) } },
  FleetStreamNearlyFull: { series: { 'fleet_stream_fill_ratio{stream="FLEET_DEAD"}': steady(0.85) } },
  FleetStreamFull: { series: { 'fleet_stream_fill_ratio{stream="FLEET_DEAD"}': steady(0.99) } },
  FleetStreamFinding: {
    series: { 'fleet_stream_findings_total{kind="sealed", repaired="false"}': sudden(1) },
  },
  FleetIndexBehind: { series: { fleet_index_lag: growing(100) } },
  FleetMirrorBehind: { series: above("fleet_mirror_lag_ms", "", 300_000), without: /^fleet_mirror/ },
  FleetMirrorFails: { series: { 'fleet_mirror_failures_total{cause="disk_low"}': growing(1) } },
  FleetTaskBlocked: { series: { 'fleet_recoveries{state="blocked"}': sudden(1) } },
  FleetTasksBlocked: { series: { 'fleet_recoveries{state="blocked"}': sudden(20) } },
  FleetRecoveriesPileUp: { series: { 'fleet_recoveries{state="attempted"}': growing(1) } },
  FleetRecoveriesWait: { series: { 'fleet_recoveries{state="waiting"}': growing(1) }, at: "2h" },
  FleetRecoverySuccessLow: {
    series: { 'recovery_attempts_total{class="timeout", outcome="blocked"}': growing(1) },
  },
  FleetDetectionSlow: { series: above("fleet_recovery_detect_ms", "", 30_000), without: /_detect_ms/ },
  FleetHandoffsFail: { series: { handoff_success_rate: steady(0.5) } },
  FleetHandoffsWait: { series: { 'fleet_handoffs_open{state="offered"}': growing(1) } },
  FleetAgentsFail: {
    series: { 'fleet_failures_total{class="timeout", signal="lease_lapsed"}': sudden(60) },
  },
  FleetAgentsSilent: {
    series: { 'fleet_failures_total{class="timeout", signal="lease_lapsed"}': sudden(10) },
  },
  FleetAttentionLost: { series: { fleet_watchdog_attention_ms_lost_total: growing(45_000) } },
  FleetOffersRefused: {
    series: { 'fleet_runner_offers_refused_total{agent_type="qa"}': sudden(1) },
  },
  FleetTokensRefused: {
    series: { 'fleet_signer_requests_total{outcome="issuer_unavailable"}': growing(2) },
  },
  FleetDiskLow: { series: { 'fleet_disk_free_bytes{disk_of="store"}': steady(200_000_000) } },
  FleetDiskFillsSoon: {
    series: { 'fleet_disk_free_bytes{disk_of="store"}': growing(-5_000_000, 5_000_000_000) },
    at: "3h",
  },
  FleetStoreUnavailable: { series: { fleet_store_breaker_state: steady(2) } },
  FleetStoreConflicts: { series: { fleet_store_conflicts_total: growing(10_000) } },
  FleetStoreDamaged: { series: { 'fleet_scrub_findings_total{kind="head"}': sudden(1) } },
  FleetScrubOld: { series: { fleet_scrub_age_seconds: growing(60, 180_000) }, at: "2h" },
  FleetScrubMissing: { series: {}, without: /^fleet_scrub_age/, at: "50h", every: "1h" },
  FleetAuditLogBehind: { series: { fleet_audit_log_delay_seconds: steady(61) } },
  FleetAuditLogDamaged: { series: { fleet_audit_logs_damaged: steady(1) } },
  FleetAuditAnchorOld: {
    series: { 'fleet_audit_anchor_age_seconds{target="timestamp"}': steady(7_801) },
  },
  FleetAuditLogCut: { series: { 'fleet_audit_logs_cut{target="timestamp"}': steady(1) } },
  FleetRetentionOld: { series: {}, at: "50h", every: "1h" },
  FleetRetentionBacklog: { series: { fleet_retention_backlog: steady(1) }, at: "50h", every: "1h" },
  FleetShreddingKept: { series: { fleet_shreddings_kept: steady(1) }, at: "2h" },
  FleetShreddingFails: { series: { fleet_shreddings_failed: steady(2) } },
  FleetAccessLogLoses: { series: { 'fleet_access_entries_total{outcome="lost"}': sudden(1) } },
  FleetAccessLogFails: { series: { fleet_access_failures_total: growing(1) } },
  FleetCriticalAlert: {
    series: { 'fleet_alerts_total{type="RECOVERY_BLOCKED", severity="critical"}': sudden(1) },
  },
  FleetWebhooksFail: { series: { 'fleet_webhooks_total{hook="pager", outcome="refused"}': sudden(1) } },
};
