/** The headers of each kind of message, as JSON Schemas. */
import { CONTENT_TYPES, HEADERS } from "../subjects.ts";

type Schema = Record<string, unknown>;

const text = (description: string): Schema => ({ type: "string", description });
const protocol = {
  [HEADERS.protocol]: text(
    "The version of the message; absent: 1. A newer one is refused with UNSUPPORTED_VERSION",
  ),
};
const trace = { traceparent: text("W3C trace context"), tracestate: text("W3C trace context") };

export const HEADER_SCHEMAS: Schema = {
  dead_headers: {
    type: "object",
    required: [
      HEADERS.deadSubject,
      HEADERS.deadError,
      HEADERS.queuedAt,
      HEADERS.deadAt,
      HEADERS.size,
      HEADERS.messageId,
    ],
    properties: {
      [HEADERS.deadSubject]: text("The subject under which the queue stored the command: fleet.q.…"),
      [HEADERS.deadError]: text("The error as JSON: code, message, fields, details"),
      [HEADERS.deadCommand]: text("The command_id, if the body has a readable one"),
      [HEADERS.deadContent]: text(
        "The hash of the content, by which copies are recognised, if it is a command",
      ),
      [HEADERS.queuedAt]: text("The time at which the queue stored the command"),
      [HEADERS.deadAt]: text("The time of the refusal"),
      [HEADERS.size]: text("The bytes of the body"),
      [HEADERS.contentType]: text("As in the command"),
      [HEADERS.protocol]: text("As in the command"),
      [HEADERS.replyTo]: text("As in the command"),
      [HEADERS.messageId]: text("The same for every copy of the letter"),
    },
  },
  request_headers: {
    type: "object",
    properties: {
      [HEADERS.contentType]: text(`${CONTENT_TYPES.json}, which is the default, or ${CONTENT_TYPES.msgpack}`),
      [HEADERS.messageId]: text(
        "On the queue, and optional: the stream drops a copy with the same id within its duplicate window",
      ),
      [HEADERS.replyTo]: text(
        "On the queue: an inbox of the agent, below _INBOX.<tenant>.<agent_id>, for the answer",
      ),
      ...protocol,
      ...trace,
    },
  },
  answer_headers: {
    type: "object",
    properties: { [HEADERS.contentType]: text("As in the request"), ...protocol },
  },
  event_headers: {
    type: "object",
    properties: {
      [HEADERS.contentType]: text(CONTENT_TYPES.event),
      [HEADERS.messageId]: text(
        "An id that only services can make; the stream drops a copy that arrives within its duplicate window",
      ),
      ...trace,
    },
  },
};
