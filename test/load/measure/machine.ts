// The machine of the measurement, and whether another program was using it.

import { cpus, loadavg, totalmem } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { projectRoot } from "../../harness/project-root.ts";

export interface Machine {
  readonly cores: number;
  readonly cpu: string;
  readonly memory_gib: number;
  readonly node: string;
  readonly nats_server: string;
  readonly load_average: readonly number[];
  /** The use of all cores before the benchmark started its processes. */
  readonly busy_percent: number;
}

const SAMPLE_MS = 1_000;
/** Above this, the fleet is faster than the figures show. */
export const BUSY_PERCENT_MAX = 10;

function processorTimes(): { busy: number; all: number } {
  let busy = 0;
  let all = 0;
  for (const { times } of cpus()) {
    // Work at low priority counts: it takes half of a core that two threads share.
    busy += times.user + times.nice + times.sys + times.irq;
    all += times.user + times.nice + times.sys + times.irq + times.idle;
  }
  return { busy, all };
}

export async function inspectMachine(): Promise<Machine> {
  const before = processorTimes();
  await sleep(SAMPLE_MS);
  const after = processorTimes();
  const server = findNatsServer({ root: projectRoot, env: { ...process.env } });
  if ("problem" in server) throw new Error(`${server.problem}; run: node deploy/local/setup.mjs`);
  return {
    cores: cpus().length,
    cpu: cpus()[0]?.model ?? "unknown",
    memory_gib: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    nats_server: server.version,
    load_average: loadavg().map((load) => Math.round(load * 100) / 100),
    busy_percent: Math.round((100 * (after.busy - before.busy)) / (after.all - before.all)),
  };
}

export function describeMachine(machine: Machine): string {
  const { cores, cpu, memory_gib, node, nats_server, load_average, busy_percent } = machine;
  const facts = `${cores} cores, ${cpu}, ${memory_gib} GiB; Node ${node}, nats-server ${nats_server}`;
  return `${facts}; load average ${load_average.join(" ")}, ${busy_percent} % busy at start`;
}
