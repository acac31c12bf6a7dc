// Program: another program of the machine, which keeps one core busy.

import { serveJobs } from "../jobs.ts";

const jobs = { keepBusy };
export type NeighbourJobs = typeof jobs;
serveJobs(jobs);

/** It ends by itself, because a busy thread hears nothing. */
async function keepBusy({ seconds }: { seconds: number }): Promise<void> {
  const end = performance.now() + seconds * 1_000;
  while (performance.now() < end);
}
