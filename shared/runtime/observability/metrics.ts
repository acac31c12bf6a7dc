// The metrics of a fleet process, in a registry of its own: two services in one process, or two tests in one
// file, never share or overwrite numbers. This file, with its parts, is the complete list of metric names.

import {
  AggregatorRegistry,
  type MetricObjectWithValues,
  type MetricValue,
  type Registry,
} from "prom-client";
import { handoffMetrics, recoveryMetrics } from "./handoff-metrics.ts";
import { MeasuredRegistry } from "./measured-registry.ts";
import { makers } from "./metric-makers.ts";
import { measureRuntime } from "./process-metrics.ts";
import { gatewayMetrics, runnerMetrics, sessionMetrics, signerMetrics } from "./service-metrics.ts";
import { auditLogMetrics, scrubMetrics, storageMetrics, sweepMetrics } from "./storage-metrics.ts";

export type Metrics = ReturnType<typeof createMetrics>;

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
  const registry = new MeasuredRegistry();
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
