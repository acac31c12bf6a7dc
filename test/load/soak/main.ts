// `npm run soak`: a fleet under steady load with retention on, and whether everything that it uses stays flat.

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Program, startProgram } from "../jobs.ts";
import { describeMachine, inspectMachine } from "../measure/machine.ts";
import { judgeAll } from "./judgement/verdict.ts";
import { LEAKING_PROCESS, type Leak } from "./programs/leaks.ts";
import type { LoadJobs } from "./programs/load.ts";
import type { WorkCounts } from "./programs/work.ts";
import { amount, formatVerdicts } from "./report.ts";
import type { Sample } from "./sizes/sample.ts";
import { Sampler } from "./sizes/sampler.ts";
import { readSoakOptions, SAMPLES_MIN, SOAK_HELP, type SoakOptions } from "./soak-options.ts";
import { startSoakedFleet } from "./soaked-fleet.ts";

const EXIT = { flat: 0, grows: 1, failed: 2, unclear: 3, interrupted: 130 } as const;
/** Above this share of failed and queued actions the load was not steady, and flat figures prove nothing. */
const UNSTEADY_SHARE_MAX = 0.02;

const log = (text: string): void => void process.stderr.write(`${text}\n`);
const stopping = new AbortController();

function soakOptions(): SoakOptions {
  try {
    const read = readSoakOptions(process.argv.slice(2));
    if (read !== null) return read;
    process.stdout.write(SOAK_HELP);
    process.exit(EXIT.flat);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${SOAK_HELP}`);
    process.exit(EXIT.failed);
  }
}

interface Soaked {
  readonly samples: readonly Sample[];
  readonly counts: WorkCounts;
}

/** Every process that starts from now on, and each of its threads, reports about itself. */
function probeProcesses(folder: string, everySeconds: number): void {
  const probe = new URL("./sizes/probe.ts", import.meta.url);
  process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ""} --import=${probe}`.trim();
  process.env.SOAK_PROBE_FOLDER = folder;
  process.env.SOAK_PROBE_MS = String(everySeconds * 1_000);
}

async function soak(o: SoakOptions, folder: string): Promise<Soaked> {
  const [home, probeFolder] = [join(folder, "home"), join(folder, "probe")];
  for (const path of [home, probeFolder]) mkdirSync(path);
  probeProcesses(probeFolder, o.every);
  log(`starting ${o.services ? "the services" : "a standalone fleet"}`);
  const fleet = await startSoakedFleet(home, o.services);
  const stops = [() => fleet.stop()];
  try {
    const load = startProgram<LoadJobs>(new URL("./programs/load.ts", import.meta.url));
    stops.push(() => load.stop());
    const leaking = o.leak === null ? undefined : startLeaking(o.leak);
    if (leaking !== undefined) stops.push(leaking.stop);
    const { gatewayUrl, apiKey, busUrl } = fleet;
    await load.run("start", { home, busUrl, gatewayUrl, apiKey, rate: o.rate });
    const others = { load: load.pid, ...(leaking !== undefined && { [LEAKING_PROCESS]: leaking.pid }) };
    const sampler = new Sampler({ fleet, others, probeFolder });
    const samples = await takeSamples(o, sampler, load);
    return { samples, counts: (await load.run("done", {})).counts };
  } finally {
    for (const stop of stops.toReversed()) await stop();
  }
}

function startLeaking(leak: Leak): { readonly pid: number; stop(): Promise<void> } {
  const program = new URL("./programs/leaking-process.ts", import.meta.url);
  const child = fork(program, [leak], { stdio: ["ignore", 2, 2, "ipc"] });
  const ended = once(child, "exit");
  return {
    pid: child.pid!,
    async stop() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

async function takeSamples(o: SoakOptions, sampler: Sampler, load: Program<LoadJobs>): Promise<Sample[]> {
  const samples: Sample[] = [];
  const { signal } = stopping;
  const end = performance.now() + o.minutes * 60_000;
  const isEnough = () => samples.filter(({ hours }) => hours >= o.warmUp / 60).length >= SAMPLES_MIN;
  // A sample that is late on a busy machine delays the next one, and the run lasts until there are enough.
  for (
    let at = performance.now();
    at <= end || !isEnough();
    at = Math.max(at + o.every * 1_000, performance.now())
  ) {
    await sleep(Math.max(0, at - performance.now()), undefined, { signal }).catch(() => {});
    if (signal.aborted) break;
    const { counts, behind } = await load.run("done", {});
    const sample = await sampler.take(counts.commands, behind);
    samples.push(sample);
    log(progress(sample, counts));
  }
  return samples;
}

function progress({ hours, values }: Sample, counts: WorkCounts): string {
  const memory = Object.entries(values).flatMap(([name, { anonymous }]) =>
    anonymous === undefined ? [] : [`${name} ${amount(anonymous, "bytes")}`],
  );
  const { commands, handoffs, recoveries, failed } = counts;
  return [
    `${(60 * hours).toFixed(1)} min: ${commands} commands, ${handoffs} handoffs, ${recoveries} recoveries, ${failed} failed`,
    memory.join(", "),
    `store ${amount(values.store?.used ?? 0, "bytes")} + ${amount(values.store?.free ?? 0, "bytes")} free`,
  ].join("; ");
}

function describeWork({ samples, counts }: Soaked): string {
  const { failures, ...numbers } = counts;
  const work = Object.entries(numbers).map(([name, number]) => `${number} ${name}`);
  const reasons = Object.entries(failures).map(([reason, number]) => `  ${number} × ${reason}`);
  return [`${samples.length} samples; ${work.join(", ")}`, ...reasons].join("\n");
}

async function run(o: SoakOptions): Promise<number> {
  const machine = await inspectMachine();
  log(describeMachine(machine));
  const folder = mkdtempSync(join(tmpdir(), "fleet-soak-"));
  const soaked = await soak(o, folder).finally(() => rmSync(folder, { recursive: true, force: true }));
  const { samples, counts } = soaked;
  const judged = judgeAll(samples, o.warmUp / 60);
  process.stdout.write(`${describeMachine(machine)}\n${describeWork(soaked)}\n\n${formatVerdicts(judged)}\n`);
  if (o.json !== null)
    writeFileSync(o.json, `${JSON.stringify({ machine, options: o, counts, judged, samples }, null, 1)}\n`);
  const isSteady = counts.failed + counts.queued <= UNSTEADY_SHARE_MAX * (counts.commands + counts.reads);
  if (!isSteady)
    log("too many actions failed or waited: the load was not steady, and growth may come from that");
  if (stopping.signal.aborted) return EXIT.interrupted;
  if (judged.some(({ verdict }) => verdict === "grows")) return EXIT.grows;
  if (!isSteady) return EXIT.failed;
  return judged.some(({ verdict }) => verdict === "unclear") ? EXIT.unclear : EXIT.flat;
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    log("interrupted: the report is about the samples so far");
    stopping.abort();
  });
}
process.exit(
  await run(soakOptions()).catch((error: unknown) => {
    console.error("the soak failed:", error);
    return EXIT.failed;
  }),
);
