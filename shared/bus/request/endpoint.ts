/**
 * The endpoint of the writer and the reader. It does the work that all requests share: the caller's trace,
 * decoding, metrics of time and outcome, a log line, and an answer for every failure. The handler interprets
 * the request. Decoding and encoding are passed in.
 */
import { type ErrorBody, FleetError, fieldsWithoutValues } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { requireProtocol } from "../../protocol/protocol-version.ts";
import { answersCaller, CONTENT_TYPES, HEADERS } from "../../protocol/subjects.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import type { Metrics } from "../../runtime/observability/metrics.ts";
import { withSpan } from "../../runtime/observability/tracing.ts";
import type { Stop } from "../../runtime/process/service.ts";
import type { AddressedMessage, Bus, Headers, Message, Outgoing } from "../bus.ts";

export interface ServiceRequest {
  readonly subject: string;
  /** The decoded body: plain data that is not validated yet. */
  readonly body: unknown;
  /** The body as received. A retry repeats it byte for byte. */
  readonly bytes: Uint8Array;
  readonly headers: Headers;
  /** An inbox of the caller. */
  readonly replyTo: string;
}

/** Fields for the log line of a request. */
export type Facts = Readonly<Record<string, unknown>>;

export interface ServiceAnswer {
  readonly value: unknown;
  /** The outcome for metrics and log. Default "ok". */
  readonly outcome?: string;
  readonly facts?: Facts;
}

/** Another party answers the caller, so this service does not. */
export interface ForwardedRequest {
  readonly forwarded: true;
  readonly facts?: Facts;
}

/** The outcome of a forwarded request, for metrics and log. */
const FORWARDED = "forwarded";

export interface EndpointOptions {
  readonly bus: Bus;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** `writer` or `reader`, for the names of spans and gauges. */
  readonly service: string;
  readonly subject: string;
  readonly queue: string;
  readonly latency: Metrics["checkpointWriteLatencyMs"];
  readonly total: Metrics["commandsTotal"];
  /** The operation of a subject, from a closed list because it becomes a label. */
  readonly opOf: (subject: string) => string;
  readonly decode: (bytes: Uint8Array, contentType: string | undefined) => unknown;
  readonly encode: (value: unknown, contentType: string | undefined) => Uint8Array;
  /** Called for a request that is dropped because its reply address is not its caller's. */
  readonly onDropped?: (message: Message) => void;
}

interface ErrorAnswer {
  readonly status: "error";
  readonly error: ErrorBody;
}

function errorAnswer(error: FleetError): ErrorAnswer {
  return { status: "error", error: error.toBody() };
}

interface EndpointParts extends EndpointOptions {
  /** A logger without redaction: facts are ids, numbers and redacted errors, and the search costs time. */
  readonly lines: Logger;
}

const UNREDACTED = { redact: [], formatters: { log: (fields: object) => fields } };

const OVERLOADED = new FleetError("UNAVAILABLE", "the service has reached its limit of open requests", {
  retryAfterMs: LIMITS.overload_retry_ms,
});
const TOO_LONG = new FleetError(
  "TOO_LARGE",
  "the answer does not fit into one message; ask for less, or as JSON",
);
const FAULT = new FleetError("INTERNAL", "an unexpected failure; the service's log has the details");

/** The outcomes of requests that were dropped for their reply address. */
const FOREIGN_REPLY = "FOREIGN_REPLY";
const NO_REPLY = "NO_REPLY";

/** A handler throws FleetErrors. Any other error is a fault of Fleet and is logged with its stack. */
export function serveEndpoint(
  options: EndpointOptions,
  handle: (request: ServiceRequest) => Promise<ServiceAnswer | ForwardedRequest>,
): Promise<Stop> {
  const { bus, service } = options;
  const parts: EndpointParts = { ...options, lines: options.log.child({}, UNREDACTED) };
  const record = recorder(options);
  const inFlight = options.metrics.requestsInFlight.labels({ service });
  return bus.serve(
    options.subject,
    {
      queue: options.queue,
      concurrencyMax: LIMITS.requests_in_flight_max,
      waitMsMax: LIMITS.request_wait_ms_max,
      isOwnReply: ({ subject, replyTo }) => answersCaller(subject, replyTo),
      dropped: (message) => {
        const { subject, replyTo } = message;
        // The caller of a request without the address may not be the one that its subject names, and so is not recorded.
        if (replyTo !== undefined) options.onDropped?.(message);
        record(options.opOf(subject), replyTo === undefined ? NO_REPLY : FOREIGN_REPLY, null);
        options.log.warn(
          { subject, reply_to: replyTo },
          "request dropped: its answer would not go to its caller",
        );
      },
      overload: (message) => {
        record(options.opOf(message.subject), OVERLOADED.code, null);
        return reply(options, message, errorAnswer(OVERLOADED));
      },
      failed: (message, error) => {
        options.log.error({ error, subject: message.subject }, "a reply could not be made");
        return reply(options, message, errorAnswer(FAULT));
      },
    },
    async (message) => {
      inFlight.inc();
      try {
        const op = options.opOf(message.subject);
        const run = () => answer(parts, record, message, op, handle);
        return await withSpan(`${service} ${op}`, { "fleet.op": op }, run, {
          parent: message.headers,
          kind: "server",
        });
      } finally {
        inFlight.dec();
      }
    },
  );
}

/** Whether the outcome concerns operators. Any other refusal is a mistake of the caller. */
function isOwnFault(outcome: string): boolean {
  return ["CORRUPT", "UNAVAILABLE", "TIMEOUT", "INTERNAL"].includes(outcome);
}

/** Counts an outcome, and times it unless `ms` is null. */
type Recorder = (op: string, outcome: string, ms: number | null) => void;

/** Looks up each pair of labels once, because the library hashes them at every call. */
function recorder({ latency, total }: EndpointOptions): Recorder {
  const known = new Map<string, { observe: (ms: number) => void; inc: () => void }>();
  return (op, outcome, ms) => {
    const name = `${op} ${outcome}`;
    let labelled = known.get(name);
    if (labelled === undefined) {
      const [timed, counted] = [latency.labels({ op, outcome }), total.labels({ op, outcome })];
      labelled = { observe: (value) => timed.observe(value), inc: () => counted.inc() };
      known.set(name, labelled);
    }
    if (ms !== null) labelled.observe(ms);
    labelled.inc();
  };
}

async function answer(
  options: EndpointParts,
  record: Recorder,
  message: AddressedMessage,
  op: string,
  handle: (request: ServiceRequest) => Promise<ServiceAnswer | ForwardedRequest>,
): Promise<Outgoing | undefined> {
  const { clock, log, lines } = options;
  const begin = clock.monotonic();
  const done = (outcome: string, facts: Facts): Facts => {
    const ms = clock.monotonic() - begin;
    record(op, outcome, ms);
    return { op, outcome, ms: Math.round(ms * 100) / 100, ...facts };
  };
  try {
    requireProtocol(message.headers.get(HEADERS.protocol));
    const body = options.decode(message.body, message.headers.get(HEADERS.contentType));
    const { subject, headers, replyTo } = message;
    const answered = await handle({ subject, body, bytes: message.body, headers, replyTo });
    if ("forwarded" in answered) {
      lines.info(done(FORWARDED, answered.facts ?? {}), "request forwarded");
      return undefined;
    }
    const { value, outcome, facts } = answered;
    lines.info(done(outcome ?? "ok", facts ?? {}), "request answered");
    return reply(options, message, value);
  } catch (error) {
    const known = error instanceof FleetError ? error : FAULT;
    if (known.code === "INTERNAL") log.error({ error, op }, "request failed by a fault of Fleet");
    const { code, fields, details } = known;
    const refused = done(code, { subject: message.subject, fields: fieldsWithoutValues(fields), details });
    if (isOwnFault(code)) log.warn(refused, "request failed");
    else log.info(refused, "request refused");
    return reply(options, message, errorAnswer(known));
  }
}

/** An answer has the content type of its request. */
function reply(options: EndpointOptions, message: Message, value: unknown): Outgoing {
  const asked = message.headers.get(HEADERS.contentType);
  const contentType = asked === CONTENT_TYPES.msgpack ? CONTENT_TYPES.msgpack : CONTENT_TYPES.json;
  const body = options.encode(value, contentType);
  if (body.length > LIMITS.payload_bytes_max) return reply(options, message, errorAnswer(TOO_LONG));
  // JSON is the default and has no header, because a header costs as much as a small answer.
  if (contentType === CONTENT_TYPES.json) return { body };
  return { body, headers: { [HEADERS.contentType]: contentType } };
}
