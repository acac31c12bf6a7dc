/** A trace spans the bus and the outbox; logs are JSON lines with fields. */

import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import type { FleetEvent } from "../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("latin1");
}

describe("traces and logs", () => {
  const received: string[] = [];
  const collector = createServer(async (request, response) => {
    received.push(await bodyOf(request));
    response.writeHead(200).end("{}");
  });
  let fleet: TestFleet;

  beforeAll(async () => {
    collector.listen(0, "127.0.0.1");
    await once(collector, "listening");
    const { port } = collector.address() as AddressInfo;
    fleet = await startFleet({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
  });
  afterAll(async () => {
    await fleet.stop();
    collector.close();
  });

  test("one trace from the caller through the writer to the event", async () => {
    const client = await fleet.client("tracer");
    const events: FleetEvent[] = [];
    const arrived = Promise.withResolvers<void>();
    await client.onEvent((event) => {
      events.push(event);
      arrived.resolve();
    });
    const traceId = "0af7651916cd43dd8448eb211c80319c";
    const parent = new Map([["traceparent", `00-${traceId}-b7ad6b7169203331-01`]]);
    await withSpan(
      "agent step",
      {},
      () =>
        client.createCheckpoint({
          taskId: "traced",
          checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } },
          // On a busy machine the command would be queued after a late answer.
          deadlineMs: 20_000,
        }),
      { parent: { get: (key) => parent.get(key) } },
    );
    await arrived.promise;
    expect(events[0]?.traceparent).toContain(traceId);
    await fleet.terminate();
    const spans = received.join("\n");
    expect(spans).toContain("writer create");
    await fleet.start();
  });

  test("every command and query has a JSON log line with its fields", () => {
    const lines = fleet
      .output()
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const create = lines.find(({ op, task_id }) => op === "create" && task_id === "traced");
    expect(create).toMatchObject({
      msg: "request answered",
      agent_id: "tracer",
      outcome: "ok",
      version: 1,
    });
    expect(create?.ms).toBeTypeOf("number");
  });
});
