// Program: readers of the HTTP API, over connections that stay open. Each reader has one connection and one request in flight. They
// write to plain sockets, because a client library takes more processor time than the gateway and would measure itself.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { serveJobs } from "../jobs.ts";
import { summarize } from "../measure/percentiles.ts";
import { closedLoop } from "../measure/request-rate.ts";

const jobs = { read };
export type HttpReadersJobs = typeof jobs;
serveJobs(jobs);

interface ReadParams {
  readonly url: string;
  readonly key: string;
  /** Below /api/v1. */
  readonly paths: readonly string[];
  readonly readers: number;
  readonly seconds: number;
}

const OK = Buffer.from("HTTP/1.1 200 ");
const HEAD_END = Buffer.from("\r\n\r\n");

async function read({ url, key, paths, readers, seconds }: ReadParams) {
  const { host, hostname, port } = new URL(url);
  const requests = paths.map(
    (path) => `GET /api/v1${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n\r\n`,
  );
  const connections = await Promise.all(
    Array.from({ length: readers }, () => openConnection(hostname, Number(port))),
  );
  let next = 0;
  const { latencies, failures, perSecond } = await closedLoop(
    { callers: readers, warmUpSeconds: 1, seconds },
    (reader) => {
      next += 1;
      return connections[reader]!.get(requests[next % requests.length]!);
    },
  );
  for (const { socket } of connections) socket.destroy();
  return { perSecond, latency: summarize(latencies), failed: failures.length };
}

interface Connection {
  readonly socket: Socket;
  /** Resolves when a whole answer with the status 200 has arrived. */
  get(request: string): Promise<void>;
}

async function openConnection(host: string, port: number): Promise<Connection> {
  const socket = connect({ host, port, noDelay: true });
  await once(socket, "connect");
  let waiting: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined;
  let received = Buffer.alloc(0);
  const fail = (problem: string) => waiting?.reject(new Error(problem));
  socket.on("error", ({ message }) => fail(message));
  socket.on("close", () => fail("the connection was closed"));
  socket.on("data", (chunk) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const length = answerLength(received);
    if (length === undefined || received.length < length) return;
    const head = received.subarray(0, OK.length);
    received = received.subarray(length);
    if (head.equals(OK)) waiting?.resolve();
    else fail(head.toString());
  });
  return {
    socket,
    get: (request) =>
      new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        if (socket.destroyed) fail("the connection was closed");
        else socket.write(request);
      }),
  };
}

/** The bytes of an answer with `Content-Length`, which the gateway sends with each record. undefined: its head is not complete. */
function answerLength(received: Buffer): number | undefined {
  const end = received.indexOf(HEAD_END);
  if (end === -1) return undefined;
  const [, length = "0"] = /content-length: (\d+)/i.exec(received.toString("latin1", 0, end)) ?? [];
  return end + HEAD_END.length + Number(length);
}
