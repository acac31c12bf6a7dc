/**
 * An answer, and how it is sent. A `Response` of the web would turn each body into a stream first, which costs more than the rest
 * of a small read, so a whole body goes straight to Node's own response. Only streams of events stay a `Response`.
 */
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** undefined: none. */
  readonly body?: string | Uint8Array | ReadableStream<Uint8Array> | undefined;
}

/** Without a body, and by RFC 9110 without its length. */
const BARE = new Set([204, 304]);

export function send(
  { status, headers, body }: HttpAnswer,
  { incoming, outgoing }: Pick<HttpBindings, "incoming" | "outgoing">,
): Response {
  if (body instanceof ReadableStream) {
    if (incoming.method !== "HEAD") return new Response(body, { status, headers });
    // The body would be dropped unread, and what it holds never released.
    void body.cancel();
    outgoing.writeHead(status, headers).end();
    return RESPONSE_ALREADY_SENT;
  }
  const length = typeof body === "string" ? Buffer.byteLength(body) : (body?.length ?? 0);
  outgoing.writeHead(status, BARE.has(status) ? headers : { ...headers, "content-length": length });
  outgoing.end(body);
  return RESPONSE_ALREADY_SENT;
}
