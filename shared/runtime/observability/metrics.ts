// The metrics of a fleet process, in a registry of its own: two services in one process, or two tests in one
// file, never share or overwrite numbers. This file is the complete list of metric names.

import {
  AggregatorRegistry,
  Counter,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from "prom-client";
import { measureRuntime } from "./process-metrics.ts";

export type Metrics = ReturnType<typeof createMetrics>;

/** From half a millisecond (a cached read) to five seconds (a request that nearly times out). */
export const latencyBucketsMs = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/** From an agent that waits for the offer to one that is started by hand. */
const fractionBuckets = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
export const handoffBucketsMs = [10, 20, 50, 100, 200, 500, 1_000, 5_000, 30_000, 60_000, 300_000, 900_000];

export interface MetricsOptions {
  /** Added to every sample that has no service label of its own. */
  service?: string;
  /** Also measure the process itself (memory, processor time): once per process. Default true. */
  ofProcess?: boolean;
}

/** The answer to a scraper. */
export interface Exposition {
  readonly contentType: string;
  metrics(): Promise<string>;
}

/** All samples of one registry, in a form that can be sent to another thread. */
export type MetricsSnapshot = MetricObjectWithValues<MetricValue<string>>[];

/**
 * Merges the metrics of this thread and of others: the sum of counters and histograms, the maximum of
 * backlogs and rates.
 */
export function mergedMetrics(own: Registry, others: () => Promise<MetricsSnapshot[]>): Exposition {
  return {
    contentType: own.contentType,
    async metrics() {
      const snapshots = [await own.getMetricsAsJSON(), ...(await others())];
      return AggregatorRegistry.aggregate(snapshots).metrics();
    },
  };
}

export function createMetrics({ service, ofProcess = true }: MetricsOptions = {}) {
  const registry = new Registry();
  if (service !== undefined) registry.setDefaultLabels({ service });
  measureRuntime(registry, { ofProcess });
  const make = makers(registry);

  return {
    registry,
    checkpointWriteLatencyMs: make.latency(
      "checkpoint_write_latency_ms",
      "Time from receiving a checkpoint write to its answer, in milliseconds.",
    ),
    checkpointReadLatencyMs: make.latency(
      "checkpoint_read_latency_ms",
      "Time from receiving a checkpoint query to its answer, in milliseconds.",
    ),
    ...handoffMetrics(make),
    ...recoveryMetrics(make),
    ...sessionMetrics(make),
    commandsTotal: make.counter("fleet_commands_total", "Commands answered.", ["op", "outcome"]),
    queriesTotal: make.counter("fleet_queries_total", "Queries answered.", ["op", "outcome"]),
    draftsFinalizedTotal: make.counter(
      "fleet_drafts_finalized_total",
      "Drafts finalized because a newer checkpoint of their task had followed.",
    ),
    ...sweepMetrics(make),
    storeConflictsTotal: make.counter(
      "fleet_store_conflicts_total",
      "Transactions that lost a race and ran again.",
    ),
    outboxPublishedTotal: make.counter("fleet_outbox_published_total", "Committed events handed to the bus."),
    outboxDepth: make.gauge("fleet_outbox_depth", "Committed events that are not on the bus yet."),
    outboxOldestAgeMs: make.gauge(
      "fleet_outbox_oldest_age_ms",
      "Age of the oldest event not on the bus yet, in milliseconds.",
    ),
    storeBreakerState: make.gauge(
      "fleet_store_breaker_state",
      "Circuit breaker around the store: 0 closed, 1 probing, 2 open.",
    ),
    queueDepth: make.gauge("fleet_queue_depth", "Queued commands that are not applied yet."),
    queueOldestAgeMs: make.gauge(
      "fleet_queue_oldest_age_ms",
      "Age of the oldest queued command, in milliseconds.",
    ),
    queuePutTotal: make.counter("fleet_queue_put_total", "Commands that a writer put into the queue.", [
      "why",
    ]),
    queueAppliedTotal: make.counter("fleet_queue_applied_total", "Queued commands applied.", ["op"]),
    queueDeadTotal: make.counter("fleet_queue_dead_total", "Queued commands that became dead letters.", [
      "reason",
    ]),
    alertsTotal: make.counter("fleet_alerts_total", "Alerts published, by type and severity.", [
      "type",
      "severity",
    ]),
    webhooksTotal: make.counter(
      "fleet_webhooks_total",
      "Posts of alerts to webhooks: delivered, retried, refused, expired after a day, or no alert (unreadable).",
      ["hook", "outcome"],
    ),
    ...storageMetrics(make),
    ...scrubMetrics(make),
    ...auditLogMetrics(make),
    ...runnerMetrics(make),
    ...signerMetrics(make),
    ...gatewayMetrics(make),
    requestsInFlight: make.gauge("fleet_requests_in_flight", "Requests being worked on now.", ["service"]),
  };
}

function handoffMetrics(make: ReturnType<typeof makers>) {
  const handoffSuccessRate = make.gauge(
    "handoff_success_rate",
    "Share of handoffs that the next agent confirmed, from 0 to 1; without open ones and without cancelled ones, unless the agent that had accepted failed.",
  );
  // A gauge starts at 0, and a rate of 0 before the first handoff would raise an alarm: absent until it is
  // known.
  handoffSuccessRate.remove();

  return {
    handoffSuccessRate,
    handoffsTotal: make.counter("fleet_handoffs_total", "Handoffs that entered a state.", ["state"]),
    handoffsOpen: make.backlog("fleet_handoffs_open", "Handoffs that have not ended, by state.", ["state"]),
    handoffContextUtilization: make.fractions(
      "fleet_handoff_context_utilization",
      "The used fraction of the agent's context when it handed its task off.",
    ),
    handoffDurationMs: make.durations(
      "fleet_handoff_duration_ms",
      "Time from the request of a handoff to its acceptance, in milliseconds.",
    ),
  };
}

function sweepMetrics(make: ReturnType<typeof makers>) {
  return {
    missionLocksSweptTotal: make.counter(
      "fleet_mission_locks_swept_total",
      "Locks and waits that ended by time, or because their agent was lost.",
    ),
    missionMessagesFailedTotal: make.counter(
      "fleet_mission_messages_failed_total",
      "Messages that a recipient did not acknowledge in time.",
    ),
    retentionRemovedTotal: make.counter("fleet_retention_removed_total", "Checkpoints removed by retention."),
    retentionFreedBytesTotal: make.counter(
      "fleet_retention_freed_bytes_total",
      "Bytes that the removed checkpoints took in the store.",
    ),
    artifactsRemovedTotal: make.counter(
      "fleet_artifacts_removed_total",
      "Artifacts removed because no checkpoint references them.",
    ),
    artifactsRepairedTotal: make.counter(
      "fleet_artifacts_repaired_total",
      "Artifacts whose lost or damaged bytes another upload replaced.",
    ),
    indexPrunedTotal: make.counter(
      "fleet_index_pruned_total",
      "Words of removed checkpoints that were removed from the search index, once for each checkpoint.",
    ),
    retentionLastRun: make.gauge(
      "fleet_retention_last_run_timestamp_seconds",
      "End of the last pass of retention by this process, in seconds since the epoch; 0: there was none.",
    ),
    retentionBacklog: make.gauge(
      "fleet_retention_backlog",
      "Checkpoints that the last pass could not remove, because their task changed or has a damaged record.",
    ),
  };
}

function recoveryMetrics(make: ReturnType<typeof makers>) {
  return {
    recoveryAttemptsTotal: make.counter(
      "recovery_attempts_total",
      "Recoveries by class of failure: initiated, completed by a checkpoint of the next agent, or blocked.",
      ["class", "outcome"],
    ),
    recoveries: make.backlog("fleet_recoveries", "Open recoveries, by state.", ["state"]),
    redactedTotal: make.counter(
      "fleet_redacted_total",
      "Secrets that agents and gateways removed from applied commands.",
      ["rule"],
    ),
    secretsRefusedTotal: make.counter(
      "fleet_secrets_refused_total",
      "Secrets in commands that the policy of their tenant refuses.",
      ["rule"],
    ),
    missionsSilentTotal: make.counter(
      "fleet_missions_silent_total",
      "Missions that were marked because they had no activity, or because an agent reported a lost context.",
    ),
    recoveryDetectMs: make.durations(
      "fleet_recovery_detect_ms",
      "Time from the end of an agent's last lease to the record of its failure, in milliseconds.",
    ),
    recoveryResumeMs: make.durations(
      "fleet_recovery_resume_ms",
      "Time from the record of a failure to the first checkpoint of the next agent, in milliseconds.",
    ),
    failuresTotal: make.counter("fleet_failures_total", "Agents that failed and lost their task.", [
      "class",
      "signal",
    ]),
    agentsWatched: make.gauge("fleet_agents_watched", "Agents with a task that a watchdog watches."),
    watchdogAttentionMsLostTotal: make.counter(
      "fleet_watchdog_attention_ms_lost_total",
      "Time in which a watchdog could not observe heartbeats, in milliseconds; it counts as silence of no agent.",
    ),
  };
}

function storageMetrics(make: ReturnType<typeof makers>) {
  return {
    indexLag: make.gauge("fleet_index_lag", "Events that the search index does not contain yet."),
    signaturesTotal: make.counter(
      "fleet_signatures_total",
      "Signatures of commits: one for each chain of entries.",
    ),
    deadLetters: make.gauge("fleet_dead_letters", "Dead letters that have not been retried or dropped."),
    streamFillRatio: make.gauge(
      "fleet_stream_fill_ratio",
      "The part of its bytes that the queue or the stream of dead letters has filled, from 0 to 1.",
      ["stream"],
    ),
    streamFindingsTotal: make.counter(
      "fleet_stream_findings_total",
      "Streams and consumers found missing, altered, paused, sealed or full, by kind and whether repaired.",
      ["kind", "repaired"],
    ),
    mirrorLagMs: make.durations(
      "fleet_mirror_lag_ms",
      "Time from the commit of a checkpoint to its file in the mirror, in milliseconds.",
    ),
    mirrorFailuresTotal: make.counter(
      "fleet_mirror_failures_total",
      "Failed steps of the file mirror, by cause: failed, disk_low, sync, or unsafe: a place that is not a plain file or folder.",
      ["cause"],
    ),
    diskFreeBytes: make.backlog(
      "fleet_disk_free_bytes",
      "Free space of the disk of the store, and of that of the standalone fleet's bus, in bytes.",
      ["disk_of"],
    ),
  };
}

function scrubMetrics(make: ReturnType<typeof makers>) {
  const scrubAgeSeconds = make.gauge(
    "fleet_scrub_age_seconds",
    "Time since the whole store was last verified, in seconds: since the end of the last complete scrub.",
  );
  // Absent until the first scrub has ended: an age of 0 would look as if all were well.
  scrubAgeSeconds.remove();

  return {
    scrubAgeSeconds,
    scrubPassSeconds: make.gauge(
      "fleet_scrub_pass_seconds",
      "Duration of the current scrub so far, in seconds; 0 when there is none.",
    ),
    scrubCheckpointsTotal: make.counter(
      "fleet_scrub_checkpoints_total",
      "Checkpoint versions that scrubs verified.",
    ),
    scrubArtifactsTotal: make.counter("fleet_scrub_artifacts_total", "Artifacts whose bytes scrubs hashed."),
    scrubBytesTotal: make.counter("fleet_scrub_bytes_total", "Bytes that scrubs read."),
    checkpointCorruptTotal: make.counter(
      "fleet_checkpoint_corrupt_total",
      "Stored checkpoints that failed their hash.",
    ),
    checkpointRestoredTotal: make.counter(
      "fleet_checkpoint_restored_total",
      "Stored checkpoints that were lost or corrupt and were restored from the file mirror.",
    ),
    scrubFindingsTotal: make.counter("fleet_scrub_findings_total", "New findings of scrubs.", ["kind"]),
  };
}

function auditLogMetrics(make: ReturnType<typeof makers>) {
  return {
    auditLogAppendedTotal: make.counter(
      "fleet_audit_log_appended_total",
      "Audit entries appended to the Merkle logs of their tenants.",
    ),
    auditLogSize: make.gauge("fleet_audit_log_size", "Audit entries in the Merkle logs of all tenants."),
    auditLogDelaySeconds: make.gauge(
      "fleet_audit_log_delay_seconds",
      "Age of the oldest audit entry that is not in the Merkle log of its tenant, in seconds; 0: all are. Without damaged logs.",
    ),
    auditLogsDamaged: make.gauge(
      "fleet_audit_logs_damaged",
      "Tenants whose Merkle log is damaged, so that no entry is appended to it.",
    ),
    auditLogDamageTotal: make.counter(
      "fleet_audit_log_damage_total",
      "Damaged audit entries and rows of the feed that the audit log has passed.",
      ["kind"],
    ),
  };
}

function runnerMetrics(make: ReturnType<typeof makers>) {
  return {
    runnerAgents: make.gauge(
      "fleet_runner_agents",
      "Agents that a runner has started or is about to start.",
      ["agent_type"],
    ),
    runnerExitsTotal: make.counter("fleet_runner_exits_total", "Agents of a runner that ended.", [
      "agent_type",
      "class",
    ]),
    runnerOffersVoidTotal: make.counter(
      "fleet_runner_offers_void_total",
      "Offers that were void when a runner wanted them: accepted by another agent, ended, or not made by the fleet.",
      ["agent_type"],
    ),
    runnerOffersRefusedTotal: make.counter(
      "fleet_runner_offers_refused_total",
      "Messages that a runner refused as offers: of another form, or with a digest that is not that of their content.",
      ["agent_type"],
    ),
  };
}

function sessionMetrics(make: ReturnType<typeof makers>) {
  return {
    turnEventsTotal: make.counter("fleet_turn_events_total", "Events of sessions, with what was decided.", [
      "event",
      "decision",
    ]),
  };
}

function signerMetrics(make: ReturnType<typeof makers>) {
  return {
    signerRequestsTotal: make.counter(
      "fleet_signer_requests_total",
      "Connections with a token that a signing service decided: issued, or the reason of the refusal; agent_issued and agent_refused: for agents of runners.",
      ["outcome"],
    ),
  };
}

function gatewayMetrics(make: ReturnType<typeof makers>) {
  return {
    gatewayRequestsTotal: make.counter(
      "fleet_gateway_requests_total",
      "Requests that the gateway answered, by operation and HTTP status.",
      ["op", "status"],
    ),
    gatewayLatencyMs: make.latency(
      "fleet_gateway_latency_ms",
      "Time from receiving an HTTP request to its answer, in milliseconds.",
    ),
  };
}

function makers(registry: Registry) {
  const registers = [registry];
  return {
    counter: <L extends string = never>(name: string, help: string, labelNames: L[] = []) =>
      new Counter({ name, help, labelNames, registers }),
    gauge: <L extends string = never>(name: string, help: string, labelNames: L[] = []) =>
      // All threads that measure a backlog measure the same one.
      new Gauge({ name, help, labelNames, registers, aggregator: labelNames.length > 0 ? "sum" : "max" }),
    /** A gauge with labels that has the same value in every thread that measures it. */
    backlog: <L extends string>(name: string, help: string, labelNames: L[]) =>
      new Gauge({ name, help, labelNames, registers, aggregator: "max" }),
    durations: (name: string, help: string) =>
      new Histogram({ name, help, buckets: handoffBucketsMs, registers }),
    fractions: (name: string, help: string) =>
      new Histogram({ name, help, buckets: fractionBuckets, registers }),
    latency: (name: string, help: string) =>
      new Histogram({
        name,
        help,
        labelNames: ["op", "outcome"] as const,
        buckets: latencyBucketsMs,
        registers,
      }),
  };
}
