// The machine of the measurement, and whether another program was using it.

import { readFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem, type } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { projectRoot } from "../../harness/project-root.ts";

export interface Machine {
  readonly cores: number;
  readonly cpu: string;
  readonly memory_gib: number;
  /** The kernel. */
  readonly system: string;
  readonly node: string;
  readonly nats_server: string;
  readonly lmdb: string;
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
    system: `${type()} ${release()}`,
    node: process.version,
    nats_server: server.version,
    lmdb: lmdbVersion(),
    load_average: loadavg().map((load) => Math.round(load * 100) / 100),
    busy_percent: Math.round((100 * (after.busy - before.busy)) / (after.all - before.all)),
  };
}

/** The version of the driver, which contains the engine. */
function lmdbVersion(): string {
  try {
    const manifest = readFileSync(join(projectRoot, "node_modules", "lmdb", "package.json"), "utf8");
    return (JSON.parse(manifest) as { version: string }).version;
  } catch {
    return "not installed"; // an optional dependency
  }
}

/** Without what the machine did at the time. */
export function describeParts({ cores, cpu, memory_gib, system, node, nats_server, lmdb }: Machine): string {
  const parts = `${cores} cores, ${cpu}, ${memory_gib} GiB, ${system}`;
  return `${parts}; Node ${node}, nats-server ${nats_server}, lmdb ${lmdb}`;
}

export function describeMachine(machine: Machine): string {
  const { load_average, busy_percent } = machine;
  return `${describeParts(machine)}; load average ${load_average.join(" ")}, ${busy_percent} % busy at start`;
}
