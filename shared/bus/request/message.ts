/**
 * Converts messages between the client library's form and ours. Headers are decoded only on access. They are
 * encoded here and not by the library, whose header object costs more than the rest of a small request.
 */
import type { Msg, MsgHdrs } from "@nats-io/transport-node";
import { injectTrace } from "../../runtime/observability/tracing.ts";
import type { Headers, Message, Outgoing } from "../bus.ts";

const NO_HEADERS: Headers = { get: () => undefined, keys: () => [] };
const NAME = /^[!-9;-~]+$/;
const LINE_BREAK = /[\r\n]/;

/** The common part of the library's core and stream messages. */
type Raw = Pick<Msg, "subject" | "data"> & { headers?: MsgHdrs | undefined; reply?: string | undefined };

export class ReceivedMessage implements Message {
  readonly #raw: Raw;

  constructor(raw: Raw) {
    this.#raw = raw;
  }

  get subject(): string {
    return this.#raw.subject;
  }

  get body(): Uint8Array {
    return this.#raw.data;
  }

  get headers(): Headers {
    return messageHeaders(this.#raw.headers);
  }

  get replyTo(): string | undefined {
    return this.#raw.reply || undefined;
  }
}

export function messageHeaders(raw: MsgHdrs | undefined): Headers {
  if (raw === undefined) return NO_HEADERS;
  return { get: (name) => (raw.has(name) ? raw.get(name) : undefined), keys: () => raw.keys() };
}

/** The status that the server itself sends as an answer. 503: no service is subscribed to the subject. */
export function statusCode(raw: Msg): number {
  return raw.data.length === 0 ? (raw.headers?.code ?? 0) : 0;
}

/**
 * The headers of an outgoing message and the active trace, encoded. undefined: there are none. Throws
 * TypeError for a name or value that would break the protocol line.
 */
export function wireHeaders(out: Outgoing, more?: Readonly<Record<string, string>>): MsgHdrs | undefined {
  const all: Record<string, string> = { ...out.headers, ...more };
  injectTrace((name, value) => {
    all[name] = value;
  });
  let text = "";
  for (const [name, value] of Object.entries(all)) {
    if (!NAME.test(name) || LINE_BREAK.test(value)) throw new TypeError("a message header is not valid");
    text += `\r\n${name}: ${value}`;
  }
  if (text === "") return undefined;
  // On the headers of an outgoing message, the library calls only encode().
  return { encode: () => Buffer.from(`NATS/1.0${text}\r\n\r\n`) } as unknown as MsgHdrs;
}
