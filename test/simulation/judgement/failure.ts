/** The failure that a build shows: the first seed that reveals it, and its story cut short. */
import type { Violation } from "../../fleet/faults/checker/evidence.ts";
import type { BrokenName } from "../../fleet/faults/environment/broken-builds.ts";
import { damaging, removing, type Story, storyOf, watching } from "../story/story.ts";
import { runStory, type StoryResult } from "../world/world.ts";
import { shrink } from "./shrink.ts";

export interface Failure {
  readonly story: Story;
  readonly result: StoryResult;
}

/** What the stories of a broken build need, because few have it. */
const NEEDS: Readonly<Partial<Record<BrokenName, (story: Story) => Story>>> = {
  leases_ignored: watching,
  unverified: damaging,
  hold_forgotten: removing,
  tombstone_skipped: removing,
};

/** The story of a seed, with what the broken build needs to be revealed. */
export function storyFor(seed: number, broken: BrokenName | null, size = 1): Story {
  const story = storyOf(seed, size);
  return broken === null ? story : (NEEDS[broken]?.(story) ?? story);
}

/** The shortest found story with a violation of this kind, and its result. */
export async function shortened(
  { story, result }: Failure,
  {
    kind,
    broken,
    runsMax,
  }: { readonly kind: Violation["kind"]; readonly broken: BrokenName | null; readonly runsMax: number },
): Promise<Failure> {
  let shortest = result;
  const fails = async (one: Story): Promise<boolean> => {
    // A story that does not end, or ends with an error, does not show this violation.
    const found = await runStory(one, broken).catch(() => undefined);
    if (!found?.violations.some((violation) => violation.kind === kind)) return false;
    shortest = found;
    return true;
  };
  return { story: await shrink(story, fails, runsMax), result: shortest };
}
