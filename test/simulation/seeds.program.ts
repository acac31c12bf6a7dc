/**
 * Program, with the replaced globals: runs seeds one after the other, and prints their results as JSON, or cuts the first failing story short and
 * prints that.
 */
import { shortened, storyFor } from "./judgement/failure.ts";
import { narrative } from "./judgement/narrative.ts";
import { readSimulateOptions, type SimulateOptions, storyArgs } from "./options.ts";
import { stormy } from "./story/storm.ts";
import { briefStoryOf, calm, type Story } from "./story/story.ts";
import { readStory } from "./story/story-file.ts";
import { runStory, type StoryResult } from "./world/world.ts";

/** Each tenth seed has every fault, instead of those that it chooses. */
const STORMY_EVERY = 10;
const SHRINKING_RUNS_MAX = 200;

const print = (text: string): void => void process.stdout.write(`${text}\n`);

function* seedsOf({ first, seeds, minutes, stride }: SimulateOptions): Generator<number> {
  const end = minutes === null ? Number.POSITIVE_INFINITY : Date.now() + minutes * 60_000;
  const last = minutes === null ? first + seeds - 1 : Number.POSITIVE_INFINITY;
  for (let seed = first; seed <= last && Date.now() < end; seed += stride) yield seed;
}

function resultLine({ seed, signs, encrypts }: Story, result: StoryResult): string {
  const { verdict, evidence: _, began: __, ...facts } = result;
  const { checked, zombies } = verdict;
  return JSON.stringify({ seed, signs, encrypts, ...facts, checked, zombies });
}

function printNarrative(story: Story, result: StoryResult): void {
  print(`${result.violations.length} violations`);
  for (const line of narrative(story, result)) print(`  ${line}`);
}

/** The long story comes first, because a shorter one may need minutes. */
async function explain(story: Story, result: StoryResult, options: SimulateOptions): Promise<void> {
  const { broken } = options;
  const { kind } = result.violations[0]!;
  print(`seed ${story.seed}`);
  printNarrative(story, result);
  print("looking for a shorter story");
  const short = await shortened({ story, result }, { kind, broken, runsMax: SHRINKING_RUNS_MAX });
  print("the shorter story");
  printNarrative(short.story, short.result);
  print(JSON.stringify(short.story));
  print(`again: npm run simulate -- ${["--seed", String(story.seed), ...storyArgs(options)].join(" ")}`);
}

function chosenStory(seed: number, options: SimulateOptions): Story {
  const { broken, size, brief, story: file, calm: isCalm } = options;
  if (file !== null) return readStory(file);
  if (brief) return briefStoryOf(seed);
  const story = storyFor(seed, broken, size);
  if (isCalm) return calm(story);
  return broken === null && seed % STORMY_EVERY === 0 ? stormy(story, size) : story;
}

async function main(options: SimulateOptions): Promise<number> {
  for (const seed of seedsOf(options)) {
    const story = chosenStory(seed, options);
    const result = await runStory(story, options.broken);
    if (options.json) print(resultLine(story, result));
    if (result.violations.length === 0) continue;
    if (!options.json) await explain(story, result, options);
    return 1;
  }
  return 0;
}

try {
  const options = readSimulateOptions(process.argv.slice(2));
  if (options !== null) process.exitCode = await main(options);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exitCode = 2;
}
