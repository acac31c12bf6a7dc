/** Program of `npm run simulate`, with the replaced globals: runs seeds, prints their results, and cuts the first failing story short. */
import type { BrokenName } from "../fleet/faults/environment/broken-builds.ts";
import { shortened, storyFor } from "./judgement/failure.ts";
import { narrative } from "./judgement/narrative.ts";
import { readSimulateOptions, SIMULATE_HELP, type SimulateOptions } from "./options.ts";
import { calm, type Story } from "./world/story.ts";
import { runStory, type StoryResult } from "./world/world.ts";

const PROGRESS_EVERY_MS = 10_000;
const SHRINKING_RUNS_MAX = 200;

const print = (text: string): void => void process.stdout.write(`${text}\n`);

function* seedsOf({ first, seeds, hours }: SimulateOptions): Generator<number> {
  const end = hours === null ? Number.POSITIVE_INFINITY : Date.now() + hours * 3_600_000;
  const last = hours === null ? first + seeds - 1 : Number.POSITIVE_INFINITY;
  for (let seed = first; seed <= last && Date.now() < end; seed += 1) yield seed;
}

interface Totals {
  seeds: number;
  commands: number;
  simulatedMs: number;
  kills: number;
}

const totalsText = ({ seeds, commands, simulatedMs, kills }: Totals): string =>
  `${seeds} seeds, ${commands} commands, ${Math.round(simulatedMs / 1_000)} simulated s, ${kills} kills`;

function resultLine(seed: number, { verdict, evidence: _, began: __, ...facts }: StoryResult): string {
  return JSON.stringify({ seed, ...facts, checked: verdict.checked, zombies: verdict.zombies });
}

function printNarrative(story: Story, result: StoryResult): void {
  print(`${result.violations.length} violations`);
  for (const line of narrative(story, result)) print(`  ${line}`);
}

/** The long story comes first, because a shorter one may need minutes. */
async function explain(story: Story, result: StoryResult, broken: BrokenName | null): Promise<void> {
  const { kind } = result.violations[0]!;
  print(`seed ${story.seed}`);
  printNarrative(story, result);
  print("looking for a shorter story");
  const short = await shortened({ story, result }, { kind, broken, runsMax: SHRINKING_RUNS_MAX });
  print("the shorter story");
  printNarrative(short.story, short.result);
  print(JSON.stringify(short.story));
  print(`again: npm run simulate -- --seed ${story.seed}${broken === null ? "" : ` --broken ${broken}`}`);
}

function chosenStory(seed: number, { broken, calm: isCalm }: SimulateOptions): Story {
  const story = storyFor(seed, broken);
  return isCalm ? calm(story) : story;
}

async function main(options: SimulateOptions): Promise<number> {
  const totals: Totals = { seeds: 0, commands: 0, simulatedMs: 0, kills: 0 };
  let shownAt = Date.now();
  for (const seed of seedsOf(options)) {
    const story = chosenStory(seed, options);
    const result = await runStory(story, options.broken);
    totals.seeds += 1;
    totals.commands += result.commands;
    totals.simulatedMs += result.simulatedMs;
    totals.kills += result.kills;
    if (options.json) print(resultLine(seed, result));
    if (result.violations.length > 0) {
      if (!options.json) await explain(story, result, options.broken);
      return 1;
    }
    if (options.json || Date.now() - shownAt < PROGRESS_EVERY_MS) continue;
    shownAt = Date.now();
    print(totalsText(totals));
  }
  if (!options.json) print(`no violation in ${totalsText(totals)}`);
  return 0;
}

try {
  const options = readSimulateOptions(process.argv.slice(2));
  if (options === null) print(SIMULATE_HELP);
  else process.exitCode = await main(options);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exitCode = 2;
}
