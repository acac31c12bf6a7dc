/**
 * Program: runs each broken build until a seed reveals it by its own violation, and prints the findings as JSON. The arguments are the highest
 * seed, the most runs that cut the story short, and the names of the builds.
 */
import { BROKEN, type BrokenName } from "../../fleet/faults/environment/broken-builds.ts";
import type { Story } from "../story/story.ts";
import { runStory } from "../world/world.ts";
import { type Failure, shortened, storyFor } from "./failure.ts";
import { narrative } from "./narrative.ts";

export interface BrokenFinding {
  readonly name: BrokenName;
  /** The seed that reveals it. null: none of them. */
  readonly seed: number | null;
  /** The other violations before that, which do not name the broken guarantee. */
  readonly others: readonly string[];
  readonly story: Story | null;
  readonly narrative: readonly string[];
}

const [seedsMax, runsMax, ...names] = process.argv.slice(2);

async function find(name: BrokenName): Promise<BrokenFinding> {
  const kind = BROKEN[name].revealedBy;
  const others = new Set<string>();
  for (let seed = 1; seed <= Number(seedsMax); seed += 1) {
    const story = storyFor(seed, name);
    const result = await runStory(story, name);
    const isRevealed = result.violations.some((violation) => violation.kind === kind);
    if (isRevealed) return { name, seed, others: [...others], ...(await told(name, { story, result })) };
    for (const violation of result.violations) others.add(violation.kind);
  }
  return { name, seed: null, others: [...others], story: null, narrative: [] };
}

async function told(
  broken: BrokenName,
  failure: Failure,
): Promise<Pick<BrokenFinding, "story" | "narrative">> {
  const kind = BROKEN[broken].revealedBy;
  const { story, result } = await shortened(failure, { kind, broken, runsMax: Number(runsMax) });
  return { story, narrative: narrative(story, result, kind) };
}

const findings: BrokenFinding[] = [];
for (const name of names) findings.push(await find(name as BrokenName));
process.stdout.write(JSON.stringify(findings));
