// W3C Trace Context on the wire: the two headers that carry a trace across the bus and from one agent to the
// next. Not taken from the tracing SDK, because a trace must also pass through when tracing is switched off
// and the SDK is not loaded.

import { createTraceState, isSpanContextValid, type SpanContext } from "@opentelemetry/api";

/** Any source of headers: a NATS message, an HTTP request, a stored record. */
export interface TraceCarrier {
  get(key: string): string | undefined | null;
}

export const traceparentKey = "traceparent";
export const tracestateKey = "tracestate";

const pattern = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

/**
 * The sender's span, or undefined when there is none or it is malformed: a bad header starts no broken trace.
 */
export function readTrace(carrier: TraceCarrier): SpanContext | undefined {
  const header = carrier.get(traceparentKey)?.trim() ?? "";
  const match = pattern.exec(header);
  // Version 00 has exactly four parts; only a later version may have more.
  if (match === null || (header.startsWith("00-") && header.length !== 55)) return undefined;
  const [, traceId = "", spanId = "", flags = ""] = match;
  const state = carrier.get(tracestateKey);
  const span: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & 1,
    isRemote: true,
    ...(state ? { traceState: createTraceState(state) } : {}),
  };
  return isSpanContextValid(span) ? span : undefined;
}

/** The trace of a stored traceparent; no trace when there is none. */
export function keptTrace(traceparent: string | null | undefined): TraceCarrier {
  return { get: (key) => (key === traceparentKey ? traceparent : undefined) };
}

export function formatTraceparent(span: SpanContext): string {
  return `00-${span.traceId}-${span.spanId}-${(span.traceFlags & 1).toString(16).padStart(2, "0")}`;
}

export function writeTrace(span: SpanContext, set: (key: string, value: string) => void): void {
  set(traceparentKey, formatTraceparent(span));
  const state = span.traceState?.serialize();
  if (state) set(tracestateKey, state);
}
