// Program: readers of the HTTP API, over connections that stay open.

import { Agent, request } from "node:http";
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

async function read({ url, key, paths, readers, seconds }: ReadParams) {
  const agent = new Agent({ keepAlive: true, maxSockets: readers });
  const headers = { authorization: `Bearer ${key}` };
  let next = 0;
  const get = (): Promise<void> => {
    next += 1;
    const path = paths[next % paths.length]!;
    return new Promise((resolve, reject) => {
      const sent = request(`${url}/api/v1${path}`, { agent, headers }, (answer) => {
        answer.resume();
        answer.once("end", () =>
          answer.statusCode === 200 ? resolve() : reject(new Error(`status ${answer.statusCode}`)),
        );
      });
      sent.once("error", reject).end();
    });
  };
  const { latencies, failures, perSecond } = await closedLoop(
    { callers: readers, warmUpSeconds: 1, seconds },
    get,
  );
  agent.destroy();
  return { perSecond, latency: summarize(latencies), failed: failures.length };
}
