// Program: one side of raw request and reply over NATS, with the fastest use of the official client: callbacks instead of
// iterators, one inbox for all requests, and neither a trace nor a timer for each request.

import { connect, createInbox, type NatsConnection } from "@nats-io/transport-node";
import { serveJobs } from "../jobs.ts";
import { summarize } from "../measure/percentiles.ts";
import { closedLoop } from "../measure/request-rate.ts";

const SUBJECT = "raw";

const jobs = { answer, ask };
export type RawNatsJobs = typeof jobs;
serveJobs(jobs);

const open = (url: string) => connect({ servers: url, noAsyncTraces: true });

/** Answers until the process ends. */
async function answer({ url, answerBytes }: { url: string; answerBytes: number }): Promise<void> {
  const connection = await open(url);
  const body = bytes(answerBytes);
  connection.subscribe(`${SUBJECT}.${answerBytes}`, {
    callback(_, message) {
      message.respond(body);
    },
  });
  await connection.flush();
}

interface AskParams {
  readonly url: string;
  readonly requestBytes: number;
  readonly answerBytes: number;
  readonly inFlight: number;
  readonly connections: number;
  readonly seconds: number;
}

async function ask({ url, requestBytes, answerBytes, inFlight, connections, seconds }: AskParams) {
  const opened = await Promise.all(Array.from({ length: connections }, () => open(url)));
  const askers = opened.map((connection) =>
    asker(connection, `${SUBJECT}.${answerBytes}`, bytes(requestBytes)),
  );
  const request = (caller: number) => askers[caller % connections]!();
  const time = { callers: inFlight, warmUpSeconds: seconds / 4, seconds };
  const { latencies, perSecond } = await closedLoop(time, request);
  await Promise.all(opened.map((connection) => connection.close()));
  return { perSecond, latency: summarize(latencies) };
}

function asker(connection: NatsConnection, subject: string, body: Uint8Array): () => Promise<void> {
  const inbox = `${createInbox()}.`;
  const waiting = new Map<string, () => void>();
  let requests = 0;
  connection.subscribe(`${inbox}*`, {
    callback(_, { subject: to }) {
      const token = to.slice(inbox.length);
      waiting.get(token)!();
      waiting.delete(token);
    },
  });
  return () =>
    new Promise((resolve) => {
      requests += 1;
      const token = requests.toString(36);
      waiting.set(token, resolve);
      connection.publish(subject, body, { reply: inbox + token });
    });
}

function bytes(length: number): Uint8Array {
  return Buffer.alloc(length, "a");
}
