/**
 * One trace follows a task from the agent that hands it off to the next agent: through the writer, the outbox, the coordinator, the
 * offer, the runner and the process of the next agent. All of them are real processes, and so is the collector.
 */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { trace } from "@opentelemetry/api";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type FleetClient, type FleetEvent, runAgent } from "../../../shared/sdk/sdk.ts";
import { type Collector, startCollector } from "../../harness/processes/collector.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { EXAMPLE, startRunner } from "../../harness/processes/runner-process.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let collector: Collector;
let fleet: TestFleet;
let source: FleetClient;
const events: FleetEvent[] = [];
/** The tracing of the agent that hands off, set up by its own program. */
const provider = new NodeTracerProvider();

beforeAll(async () => {
  provider.register();
  collector = await startCollector();
  const policy = join(mkdtempSync(join(tmpdir(), "fleet-trace-")), "policy.json");
  // A backoff, so that the attempt does not run in the transaction that records the failure.
  const recovery = { actions: { crash: ["back_off"] }, back_off_ms: 1_000 };
  writeFileSync(policy, JSON.stringify({ defaults: { recovery } }));
  fleet = await startFleet({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, FLEET_POLICY: policy });
  source = await fleet.client("source");
  await source.onEvent((event) => void events.push(event));
});
afterAll(async () => {
  await fleet?.stop();
  collector?.close();
  await provider.shutdown();
});

/** Requests a handoff inside a new span; resolves with the trace and the handoff. */
function handOff(task: string, agentType: string): Promise<{ traceId: string; handoffId: string }> {
  return trace.getTracer("agent").startActiveSpan("a step of the agent", async (span) => {
    const { checkpointId } = await source.createCheckpoint({
      taskId: task,
      checkpoint: {
        metadata: { agent_type: agentType },
        execution_state: { phase: "handoff", pending_items: ["test"] },
      },
    });
    span.end();
    return { traceId: span.spanContext().traceId, handoffId: checkpointId };
  });
}

const STEPS = [
  "AGENT_HANDOFF",
  "HANDOFF_VALIDATED",
  "HANDOFF_OFFERED",
  "HANDOFF_ACKNOWLEDGED",
  "HANDOFF_CONFIRMED",
  "CHECKPOINT_FINALIZED",
];

const eventsOf = (task: string) => events.filter(({ subject }) => subject === task);
const traceOf = (traceparent: string | undefined) => traceparent?.split("-")[1];

async function requireOneTrace(task: string, traceId: string): Promise<void> {
  const last = () => eventsOf(task).some(({ type }) => type === "CHECKPOINT_FINALIZED");
  await expect.poll(last, { timeout: 60_000, interval: 20 }).toBe(true);
  for (const type of STEPS) {
    const event = eventsOf(task).find((one) => one.type === type);
    expect([type, traceOf(event?.traceparent)]).toEqual([type, traceId]);
  }
  expect(new Set(eventsOf(task).map(({ traceparent }) => traceOf(traceparent)))).toEqual(new Set([traceId]));
}

test("events, record, offer and spans are of one trace when a runner starts the agent", async () => {
  const runner = await startRunner(
    fleet,
    { implementation: { command: EXAMPLE, heartbeats: false } },
    { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
  );
  const { traceId, handoffId } = await handOff("by-runner", "implementation");
  await requireOneTrace("by-runner", traceId);
  expect(traceOf((await source.handoff(handoffId))?.traceparent)).toBe(traceId);
  expect(await runner.terminate()).toBe(0);
  await fleet.terminate();

  const spans = collector.spans.filter((span) => span.traceId === traceId);
  const names = (service: string) => spans.filter((span) => span.service === service).map(({ name }) => name);
  // The runner received the trace with the offer; one span of the writer is the agent's first checkpoint.
  expect(names("runner")).toEqual(expect.arrayContaining(["offer", "runner acknowledge", "runner report"]));
  const ofFleet = spans.filter(({ service }) => service !== "runner").map(({ name }) => name);
  expect(ofFleet).toEqual(
    expect.arrayContaining(["writer create", "handoff event", "handoff offer", "writer acknowledge"]),
  );
  expect(ofFleet.filter((name) => name === "writer create").length).toBeGreaterThanOrEqual(3);
  // All spans except the source's have a parent in the trace: no part began a new trace with the same id.
  expect(spans.filter(({ parentSpanId }) => !parentSpanId)).toEqual([]);
  await fleet.start();
});

test("the work of an agent that waits for offers belongs to the trace, also in its own program", async () => {
  const inWork = Promise.withResolvers<string | undefined>();
  const running = runAgent({
    fleet: await fleet.client("taker"),
    type: "qa",
    async work(run) {
      inWork.resolve(trace.getActiveSpan()?.spanContext().traceId);
      for (const item of run.items()) await run.done(item);
    },
  });
  const { traceId } = await handOff("by-offer", "qa");
  expect(await running).toMatchObject({ outcome: "completed", taskId: "by-offer" });
  expect(await inWork.promise).toBe(traceId);
  await requireOneTrace("by-offer", traceId);
});

test("after a failure the next agent receives the trace of the report, also when the attempt is backed off", async () => {
  const task = "failed";
  const { fence = 0 } = await source.takeTask(task);
  await source.task(task, { fence }).checkpoint({
    metadata: { agent_type: "qa" },
    execution_state: { phase: "testing", pending_items: ["test"] },
  });
  const traceId = await trace.getTracer("runner").startActiveSpan("the end of an agent", async (span) => {
    await source.reportExit(exitReport({ agent_id: "source", task_id: task, fence }));
    span.end();
    return span.spanContext().traceId;
  });
  const offered = () => eventsOf(task).some(({ type }) => type === "HANDOFF_OFFERED");
  await expect.poll(offered, { timeout: 60_000, interval: 20 }).toBe(true);
  for (const type of ["AGENT_FAILED", "RECOVERY_INITIATED", "AGENT_HANDOFF", "HANDOFF_OFFERED"]) {
    const event = eventsOf(task).find((one) => one.type === type);
    expect([type, traceOf(event?.traceparent)]).toEqual([type, traceId]);
  }
});
