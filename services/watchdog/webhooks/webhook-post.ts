/** One POST over its own connection, so that a receiver cannot disturb the next one through it. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { Reply } from "./webhook-reply.ts";

export interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly timeoutMs: number;
  /** Ends the request early. */
  readonly signal: AbortSignal;
}

/** The problem, without the address: it may be the only secret of a receiver. */
export interface PostFailure {
  readonly problem: string;
}

/**
 * Never rejects. Follows no redirect: its target would receive an alert that was signed for another receiver.
 */
export function post({ url, headers, body, timeoutMs, signal }: Post): Promise<Reply | PostFailure> {
  return new Promise((resolve) => {
    const request = url.startsWith("https:") ? requestHttps : requestHttp;
    const size = { "content-length": String(Buffer.byteLength(body)) };
    const sent = request(url, { method: "POST", agent: false, headers: { ...headers, ...size }, signal });
    const timer = setTimeout(() => {
      resolve({ problem: "no answer in time" });
      sent.destroy();
    }, timeoutMs);
    sent.on("response", (response) => {
      const { statusCode = 0, headers } = response;
      resolve({ status: statusCode, retryAfter: headers["retry-after"] ?? null });
      // The body is discarded. The timer ends an endless one.
      response.on("error", () => {}).resume();
    });
    sent.on("error", (error: NodeJS.ErrnoException) => resolve({ problem: error.code ?? error.name }));
    sent.on("close", () => {
      clearTimeout(timer);
      // An answer such as 101 is followed by no response event: without this, the promise would stay pending.
      resolve({ problem: "closed without an answer" });
    });
    sent.end(body);
  });
}
