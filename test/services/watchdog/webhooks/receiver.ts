/**
 * A receiver of webhooks, written independently: real HTTP, its own check of signatures, answers from the
 * test.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export interface Post {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly at: number;
}

export interface Receiver {
  readonly url: string;
  readonly posts: Post[];
  close(): Promise<void>;
}

/** Answers a post. A post without an answer hangs. */
export type Answer = (response: ServerResponse, post: Post, count: number) => void;

export const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (response) =>
    void response.writeHead(code, headers).end("ok");

export async function startReceiver(answer: Answer): Promise<Receiver> {
  const posts: Post[] = [];
  const server = createServer(async (request, response) => {
    const body = (await buffer(request)).toString();
    const post = { path: request.url ?? "", headers: request.headers, body, at: performance.now() };
    posts.push(post);
    answer(response, post, posts.length);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    posts,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The check that the README gives to receivers. */
export function isGenuine(secret: string, { headers, body }: Post, nowMs = Date.now()): boolean {
  const [id, at, signatures = ""] = ["id", "timestamp", "signature"].map(
    (name) => headers[`webhook-${name}`],
  ) as string[];
  if (Math.abs(nowMs / 1_000 - Number(at)) > 300) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const wanted = createHmac("sha256", key).update(`${id}.${at}.${body}`).digest();
  return signatures.split(" ").some((one) => {
    const given = Buffer.from(one.replace(/^v1,/, ""), "base64");
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
}
