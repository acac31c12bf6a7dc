// Distributed tracing. `withSpan` always works. Without an endpoint the SDK is never loaded and a span costs
// next to nothing, yet an incoming trace is still passed on with the next message. The current span is kept
// here and not in the OpenTelemetry API, whose context does nothing until an SDK is registered. Where an
// agent's program has registered an SDK of its own, both share the current span.

import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Attributes,
  type Context,
  type ContextManager,
  context,
  type DiagLogger,
  DiagLogLevel,
  diag,
  INVALID_SPAN_CONTEXT,
  isSpanContextValid,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { loadOptional } from "../process/optional-package.ts";
import type { Logger } from "./log.ts";
import { formatTraceparent, readTrace, type TraceCarrier, writeTrace } from "./trace-context.ts";

export type { TraceCarrier } from "./trace-context.ts";

const TRACING_PACKAGES = [
  "@opentelemetry/sdk-trace-node",
  "@opentelemetry/exporter-trace-otlp-http",
  "@opentelemetry/resources",
];

const contexts = new AsyncLocalStorage<Context>();
const NO_SPAN = trace.wrapSpanContext(INVALID_SPAN_CONTEXT);
let recording = false;

/**
 * The context of the program's SDK is at least as deeply nested as ours, because it receives ours as well.
 */
function activeContext(): Context {
  const theirs = recording ? undefined : context.active();
  if (theirs !== undefined && trace.getSpan(theirs) !== undefined) return theirs;
  return contexts.getStore() ?? ROOT_CONTEXT;
}

function runInside<T>(inside: Context, fn: () => T): T {
  return contexts.run(inside, recording ? fn : () => context.with(inside, fn));
}

export interface TracingOptions {
  service: string;
  /** OTLP over HTTP, such as http://localhost:4318; undefined or empty switches tracing off. */
  endpoint?: string | undefined;
  /** Receives a warning when spans are lost. Without it they are lost silently. */
  log?: Logger;
}

/**
 * To be called once per process. An endpoint that does not answer costs spans, never requests. Throws StartupError where the packages
 * for traces are not installed.
 */
export async function startTracing({
  service,
  endpoint,
  log,
}: TracingOptions): Promise<{ stop(): Promise<void> }> {
  if (!endpoint) return { stop: async () => {} };
  const [{ BatchSpanProcessor, NodeTracerProvider }, { OTLPTraceExporter }, { resourceFromAttributes }] =
    await loadOptional("tracing", TRACING_PACKAGES, () =>
      Promise.all([
        import("@opentelemetry/sdk-trace-node"),
        import("@opentelemetry/exporter-trace-otlp-http"),
        import("@opentelemetry/resources"),
      ]),
    );
  // A short timeout, because stopping waits for the last batch.
  const exporter = new OTLPTraceExporter({ url: tracesUrl(endpoint), timeoutMillis: 3_000 });
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": service }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  if (log !== undefined) diag.setLogger(diagnostics(log), DiagLogLevel.WARN);
  provider.register({ contextManager, propagator: null });
  recording = true;
  return {
    async stop() {
      recording = false;
      trace.disable();
      context.disable();
      // A collector that is down for the last batch does not make a clean stop a failure.
      await provider.shutdown().catch((error: unknown) => log?.warn({ error }, "the last spans were lost"));
      diag.disable();
    },
  };
}

export interface SpanOptions {
  /** The incoming request; without a usable traceparent in it, the current span is the parent. */
  parent?: TraceCarrier | undefined;
  kind?: "internal" | "server" | "client" | "producer" | "consumer";
}

const kinds = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
} as const;

/** Runs `fn` inside a span; an error is recorded on the span and rethrown. */
export async function withSpan<T>(
  name: string,
  attributes: Attributes,
  fn: (span: Span) => T | Promise<T>,
  { parent, kind = "internal" }: SpanOptions = {},
): Promise<T> {
  const remote = parent === undefined ? undefined : readTrace(parent);
  // No SDK, no incoming trace and no current span: there is no trace to continue, and the request saves the
  // bookkeeping.
  const active = activeContext();
  if (!recording && remote === undefined && active === ROOT_CONTEXT) return await fn(NO_SPAN);
  const outer = remote === undefined ? active : trace.setSpanContext(active, remote);
  const span = trace.getTracer("fleet").startSpan(name, { attributes, kind: kinds[kind] }, outer);
  try {
    return await runInside(trace.setSpan(outer, span), () => fn(span));
  } catch (error) {
    span.recordException(error instanceof Error ? error : String(error));
    span.setStatus({ code: SpanStatusCode.ERROR });
    throw error;
  } finally {
    span.end();
  }
}

/** Passes the current trace on: calls `set` with traceparent and, if there is one, tracestate. */
export function injectTrace(set: (key: string, value: string) => void): void {
  const span = currentSpanContext();
  if (span !== undefined) writeTrace(span, set);
}

export function currentTraceparent(): string | undefined {
  const span = currentSpanContext();
  return span === undefined ? undefined : formatTraceparent(span);
}

function currentSpanContext(): SpanContext | undefined {
  const span = trace.getSpanContext(activeContext());
  return span !== undefined && isSpanContextValid(span) ? span : undefined;
}

function diagnostics(log: Logger): DiagLogger {
  const warn = (detail: string) => log.warn({ detail }, "tracing has a problem");
  return { error: warn, warn, info: () => {}, debug: () => {}, verbose: () => {} };
}

/** The standard variable names the collector; its path for spans is below it. */
function tracesUrl(endpoint: string): string {
  const url = new URL(endpoint);
  if (!url.pathname.endsWith("/v1/traces")) url.pathname = `${url.pathname.replace(/\/$/, "")}/v1/traces`;
  return url.href;
}

/** Shows libraries that use the OpenTelemetry API the same current span. */
const contextManager: ContextManager = {
  active: activeContext,
  with: (inside, fn, self, ...args) => contexts.run(inside, () => fn.apply(self as never, args)),
  bind(inside, target) {
    if (typeof target !== "function") return target;
    return ((...args: unknown[]) => contexts.run(inside, () => target(...args))) as typeof target;
  },
  enable: () => contextManager,
  disable: () => contextManager,
};
