/** `npm run simulate`: shares the seeds among processes with the replaced globals, one for each core, and explains the first failing seed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { readSimulateOptions, SIMULATE_HELP, type SimulateOptions, storyArgs } from "./options.ts";
import { commandOf } from "./program.ts";
import { openRecord } from "./record.ts";
import { readStory } from "./story/story-file.ts";
import { SeedTotals } from "./totals.ts";

const PROGRAM = new URL("./seeds.program.ts", import.meta.url);
const PROGRESS_EVERY_MS = 10_000;
const EXIT = { clean: 0, violation: 1, failed: 2 } as const;

const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** The arguments of each process. */
function shares(options: SimulateOptions): string[][] {
  const { first, seeds, minutes, jobs, stride } = options;
  const count = minutes === null ? Math.min(jobs, Math.ceil(seeds / stride)) : jobs;
  return Array.from({ length: count }, (_, n) => [
    ...["--seed", String(first + n * stride), "--stride", String(count * stride)],
    ...(minutes === null ? ["--seeds", String(seeds - n * stride)] : ["--minutes", String(minutes)]),
    ...[...storyArgs(options), "--json"],
  ]);
}

/** Runs all seeds; ends at the first violation or failure. Returns the exit code. */
async function runShares(options: SimulateOptions, onLine: (line: string) => void): Promise<number> {
  let worst: number = EXIT.clean;
  const running = shares(options).map((args) =>
    spawn(process.execPath, commandOf(PROGRAM, args), { stdio: ["ignore", "pipe", "inherit"] }),
  );
  const ends = running.map(async (child) => {
    createInterface({ input: child.stdout }).on("line", onLine);
    const [code] = (await once(child, "close")) as [number | null];
    if (code === EXIT.clean || worst !== EXIT.clean) return;
    worst = code ?? EXIT.failed;
    for (const one of running) one.kill();
  });
  await Promise.all(ends);
  return worst;
}

/** Prints the violations of a seed and a shorter story. */
async function explainSeed(seed: number, options: SimulateOptions): Promise<void> {
  const args = ["--seed", String(seed), ...storyArgs(options)];
  await once(spawn(process.execPath, commandOf(PROGRAM, args), { stdio: "inherit" }), "exit");
}

async function main(options: SimulateOptions): Promise<number> {
  if (options.story !== null) readStory(options.story);
  const record = options.record === null ? () => {} : await openRecord(options.record, options);
  const totals = new SeedTotals();
  record(totals, false);
  const progress = setInterval(() => {
    record(totals, false);
    if (!options.json) print(totals.text());
  }, PROGRESS_EVERY_MS);
  const code = await runShares(options, (line) => {
    totals.add(line);
    if (options.json) print(line);
  });
  clearInterval(progress);
  record(totals, true);
  if (options.json) return code;
  if (totals.failing === null) print(`${code === EXIT.clean ? "no violation in " : ""}${totals.text()}`);
  else await explainSeed(totals.failing, options);
  return code;
}

try {
  const options = readSimulateOptions(process.argv.slice(2));
  if (options === null) print(SIMULATE_HELP);
  else process.exitCode = await main(options);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = EXIT.failed;
}
