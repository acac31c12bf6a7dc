// The metric names that dashboards and alerts depend on, read from the exposition like Prometheus does.

import { expect, test } from "vitest";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";

const names: [string, string][] = [
  ["checkpoint_write_latency_ms", "histogram"],
  ["checkpoint_read_latency_ms", "histogram"],
  ["handoff_success_rate", "gauge"],
  ["fleet_handoffs_total", "counter"],
  ["fleet_handoffs_open", "gauge"],
  ["fleet_handoff_duration_ms", "histogram"],
  ["recovery_attempts_total", "counter"],
  ["fleet_commands_total", "counter"],
  ["fleet_queries_total", "counter"],
  ["fleet_store_conflicts_total", "counter"],
  ["fleet_alerts_total", "counter"],
  ["fleet_outbox_published_total", "counter"],
  ["fleet_outbox_depth", "gauge"],
  ["fleet_outbox_oldest_age_ms", "gauge"],
  ["fleet_index_lag", "gauge"],
  ["fleet_checkpoint_corrupt_total", "counter"],
  ["fleet_requests_in_flight", "gauge"],
  ["fleet_process_resident_memory_bytes", "gauge"],
  ["fleet_nodejs_eventloop_lag_seconds", "gauge"],
  ["fleet_event_loop_utilization", "gauge"],
];

test("every metric is exposed with its type", async () => {
  const text = await createMetrics().registry.metrics();
  for (const [name, type] of names) expect(text).toContain(`# TYPE ${name} ${type}\n`);
});

test("labels, buckets and the service are in the exposition", async () => {
  const metrics = createMetrics({ service: "writer" });
  metrics.checkpointWriteLatencyMs.observe({ op: "create", outcome: "committed" }, 3);
  metrics.recoveryAttemptsTotal.inc({ class: "crash", outcome: "recovered" });
  metrics.requestsInFlight.inc({ service: "reader" });
  const text = await metrics.registry.metrics();
  expect(text).toContain(
    'checkpoint_write_latency_ms_bucket{le="2",service="writer",op="create",outcome="committed"} 0',
  );
  expect(text).toContain(
    'checkpoint_write_latency_ms_bucket{le="5",service="writer",op="create",outcome="committed"} 1',
  );
  expect(text).toContain('recovery_attempts_total{class="crash",outcome="recovered",service="writer"} 1');
  expect(text).toContain('fleet_requests_in_flight{service="reader"} 1');
});

test("the success rate is absent until a handoff has ended", async () => {
  const metrics = createMetrics();
  expect(await metrics.registry.metrics()).not.toMatch(/^handoff_success_rate /m);
  metrics.handoffSuccessRate.set(0.75);
  expect(await metrics.registry.metrics()).toMatch(/^handoff_success_rate 0\.75$/m);
});

test("two sets of metrics in one process do not share numbers", async () => {
  const [one, two] = [createMetrics(), createMetrics()];
  one.storeConflictsTotal.inc(7);
  expect(await two.registry.metrics()).toMatch(/^fleet_store_conflicts_total 0$/m);
});
