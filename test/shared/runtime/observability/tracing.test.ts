// Traces cross the bus: they are read from headers and passed on, with the SDK and without.

import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import { formatTraceparent, readTrace } from "../../../../shared/runtime/observability/trace-context.ts";
import {
  currentTraceparent,
  injectTrace,
  startTracing,
  withSpan,
} from "../../../../shared/runtime/observability/tracing.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${parentId}-01`;
const carrier = (headers: Record<string, string>) => new Map(Object.entries(headers));

function injected(): Record<string, string> {
  const headers: Record<string, string> = {};
  injectTrace((key, value) => {
    headers[key] = value;
  });
  return headers;
}

describe("headers", () => {
  test.each([
    ["valid", traceparent, true],
    ["not sampled", `00-${traceId}-${parentId}-00`, true],
    ["a later version with more parts", `01-${traceId}-${parentId}-01-what-comes`, true],
    ["version ff", `ff-${traceId}-${parentId}-01`, false],
    ["version 00 with more parts", `${traceparent}-more`, false],
    ["trace id of zeros", `00-${"0".repeat(32)}-${parentId}-01`, false],
    ["span id of zeros", `00-${traceId}-${"0".repeat(16)}-01`, false],
    ["upper case", traceparent.toUpperCase(), false],
    ["empty, as NATS gives for a missing header", "", false],
  ])("%s", (_, header, valid) => {
    expect(readTrace(carrier({ traceparent: header })) !== undefined).toBe(valid);
  });

  test("no header can break the reader", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (header, state) => {
        const span = readTrace(carrier({ traceparent: header, tracestate: state }));
        return span === undefined || formatTraceparent(span).length === 55;
      }),
    );
  });
});

describe("without a collector", () => {
  test("an incoming trace is passed on, through nested spans and across awaits", async () => {
    const parent = carrier({ traceparent, tracestate: "vendor=value" });
    await withSpan(
      "handle",
      {},
      async () => {
        await new Promise(setImmediate);
        await withSpan("store", {}, async () => {
          expect(injected()).toEqual({ traceparent, tracestate: "vendor=value" });
        });
      },
      { parent, kind: "consumer" },
    );
    expect(currentTraceparent()).toBeUndefined();
  });

  test("concurrent traces are not mixed up", async () => {
    const other = `00-${"1".repeat(32)}-${"2".repeat(16)}-01`;
    const run = (header: string) =>
      withSpan(
        "handle",
        {},
        async () => {
          await new Promise(setImmediate);
          return currentTraceparent();
        },
        { parent: carrier({ traceparent: header }) },
      );
    expect(await Promise.all([run(traceparent), run(other)])).toEqual([traceparent, other]);
  });

  test("without an incoming trace there is none, and results and errors pass", async () => {
    expect(await withSpan("handle", {}, () => injected())).toEqual({});
    const failing = withSpan("handle", {}, () => Promise.reject(new Error("passed on")));
    await expect(failing).rejects.toThrow("passed on");
  });

  test("the SDK is not loaded", async () => {
    const program = `
      const { registerHooks } = await import("node:module");
      registerHooks({ load(url, context, next) {
        if (/opentelemetry.(sdk|exporter|resources|core)/.test(url)) throw new Error("loaded " + url);
        return next(url, context);
      } });
      const { startTracing, withSpan } = await import(${JSON.stringify(new URL("../../../../shared/runtime/observability/tracing.ts", import.meta.url).href)});
      await startTracing({ service: "writer", endpoint: process.argv[1] });
      await withSpan("handle", {}, () => {});`;
    const run = (endpoint: string) =>
      promisify(execFile)(process.execPath, ["--input-type=module", "-e", program, endpoint]);
    await run("");
    await expect(run("http://127.0.0.1:1")).rejects.toThrow("loaded");
  });
});

describe("with a collector", () => {
  const cleanups: (() => unknown)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0)) await cleanup();
  });

  async function collector() {
    // biome-ignore lint/suspicious/noExplicitAny: the OTLP JSON shape is the collector's, not ours.
    const received: { path: string | undefined; body: any }[] = [];
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      received.push({ path: request.url, body: JSON.parse(Buffer.concat(chunks).toString()) });
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    cleanups.push(
      () => server.closeAllConnections(),
      () => server.close(),
    );
    return { received, endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }

  test("spans of one trace arrive as parent and child when tracing stops", async () => {
    const { received, endpoint } = await collector();
    const tracing = await startTracing({ service: "writer", endpoint });
    let sent: Record<string, string> = {};
    const failing = withSpan(
      "handle",
      { task_id: "t1" },
      async () => {
        await withSpan(
          "publish",
          {},
          () => {
            sent = injected();
          },
          { kind: "producer" },
        );
        throw new Error("refused");
      },
      { parent: carrier({ traceparent, tracestate: "vendor=value" }), kind: "consumer" },
    );
    await expect(failing).rejects.toThrow("refused");
    await tracing.stop();

    expect(received.map(({ path }) => path)).toEqual(["/v1/traces"]);
    const [resource] = received[0]?.body.resourceSpans ?? [];
    expect(resource.resource.attributes).toContainEqual({
      key: "service.name",
      value: { stringValue: "writer" },
    });
    const [inner, outer] = resource.scopeSpans[0].spans;
    expect(outer).toMatchObject({
      name: "handle",
      traceId,
      parentSpanId: parentId,
      kind: 5,
      status: { code: 2 },
    });
    expect(inner).toMatchObject({ name: "publish", traceId, parentSpanId: outer.spanId, kind: 4 });
    expect(sent).toEqual({ traceparent: `00-${traceId}-${inner.spanId}-01`, tracestate: "vendor=value" });
    expect(await withSpan("after the stop", {}, () => injected())).toEqual({});
  });

  test("a collector that is down disturbs neither the work nor the stop", async () => {
    const { endpoint } = await collector();
    for (const cleanup of cleanups.splice(0)) await cleanup();
    const lines: string[] = [];
    const log = createLogger({
      service: "writer",
      destination: { write: (line) => lines.push(JSON.parse(line).msg) },
    });
    const tracing = await startTracing({ service: "writer", endpoint: `${endpoint}/v1/traces`, log });
    expect(await withSpan("handle", {}, () => currentTraceparent())).toMatch(/^00-/);
    await tracing.stop();
    expect(lines).toContain("the last spans were lost");
  });
});
