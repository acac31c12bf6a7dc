/** One POST over a connection of its own, so that what a receiver does with one cannot touch the next. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { Reply } from "./webhook-reply.ts";

export interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly timeoutMs: number;
  /** Ends it early. */
  readonly signal: AbortSignal;
}

/** What went wrong, without the address: it may be all that keeps strangers out. */
export interface Unanswered {
  readonly problem: string;
}

/** Never rejects. Follows no redirect: where it leads would get what was meant, and signed, for somebody else. */
export function post({ url, headers, body, timeoutMs, signal }: Post): Promise<Reply | Unanswered> {
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
      // What it says beside that is of no interest; the timer ends one that has no end.
      response.on("error", () => {}).resume();
    });
    sent.on("error", (error: NodeJS.ErrnoException) => resolve({ problem: error.code ?? error.name }));
    sent.on("close", () => {
      clearTimeout(timer);
      // After an answer that is none, such as 101, nothing else comes: whoever waits here would wait for ever.
      resolve({ problem: "closed without an answer" });
    });
    sent.end(body);
  });
}
