/** Cuts a failing story short: what is taken away without the failure was no part of it. */
import { NO_STORE_FAULTS } from "../store/database.ts";
import { calm, type Story } from "../story/story.ts";

/** Returns the story without some of its parts. */
type Cut = (story: Story) => Story;

const withoutBusFaults: Cut = (story) => ({ ...story, bus: calm(story).bus });
const withoutStoreFaults: Cut = (story) => ({ ...story, store: NO_STORE_FAULTS });
const withoutOthers: Cut = (story) => ({
  ...{ ...story, tasks: 0, launched: 0, acts: 0, healthyMs: 0 },
  ...{ removes: false, damages: false, signs: false, rotates: false, recovers: false, encrypts: false },
});

/** Those that take most away. */
const LARGE: readonly Cut[] = [
  (story) => withoutOthers(withoutStoreFaults(calm(story))),
  (story) => withoutStoreFaults({ ...calm(story), damages: story.damages }),
  (story) => ({ ...story, events: [], killShare: 0 }),
  withoutBusFaults,
  withoutStoreFaults,
  withoutOthers,
];

/** A cut changes all that follows in time, so that the failure may need other random choices to happen again. */
const SEEDS_TRIED = 4;
const SEED_STEP = 1_000_003;

const withSteps = (story: Story, agent: number, change: (count: number) => number): Story => ({
  ...story,
  steps: story.steps.map((count, index) => (index === agent ? change(count) : count)),
});

/** None, half of them, or one less. */
const FEWER: readonly ((count: number) => number)[] = [
  () => 0,
  (count) => Math.floor(count / 2),
  (count) => Math.max(0, count - 1),
];

/** The single parts of a story, those first whose absence makes it shortest. */
function smallCuts({ events, bus, store, steps }: Story): Cut[] {
  const busFaults = Object.entries(bus).flatMap(([name, value]) => (typeof value === "number" ? [name] : []));
  const storeFaults = Object.keys(store) as (keyof Story["store"])[];
  const without =
    (part: Partial<Story>): Cut =>
    (story) => ({ ...story, ...part });
  return [
    ...[{ removes: false }, { damages: false }, { signs: false, rotates: false }].map(without),
    ...[{ rotates: false }, { recovers: false }, { encrypts: false }, { killShare: 0 }, { healthyMs: 0 }].map(
      without,
    ),
    ...events.toReversed().map(
      (event): Cut =>
        (story) => ({ ...story, events: story.events.filter((one) => one !== event) }),
    ),
    ...FEWER.flatMap((fewer): Cut[] => [
      ...steps.map(
        (_, agent): Cut =>
          (story) =>
            withSteps(story, agent, fewer),
      ),
      (story) => ({ ...story, tasks: fewer(story.tasks) }),
      (story) => ({ ...story, launched: fewer(story.launched) }),
      (story) => ({ ...story, acts: fewer(story.acts) }),
    ]),
    ...busFaults.map(
      (name): Cut =>
        (story) => ({ ...story, bus: { ...story.bus, [name]: 0 } }),
    ),
    ...storeFaults.map(
      (name): Cut =>
        (story) => ({ ...story, store: { ...story.store, [name]: 0 } }),
    ),
  ];
}

const isSame = (one: Story, other: Story): boolean => JSON.stringify(one) === JSON.stringify(other);

/** `fails` runs a story. Resolves with a story of which no part can be taken away, or with the best after `runsMax` runs. */
export async function shrink(
  story: Story,
  fails: (story: Story) => Promise<boolean>,
  runsMax: number,
): Promise<Story> {
  let best = story;
  let runs = 0;
  /** Whether the cut leaves a failure under one of so many seeds. */
  const succeeds = async (cut: Cut, seeds: number): Promise<boolean> => {
    const shorter = cut(best);
    if (isSame(shorter, best)) return false;
    for (let n = 0; n < seeds && runs < runsMax; n += 1) {
      runs += 1;
      const one = { ...shorter, seed: shorter.seed + n * SEED_STEP };
      if (!(await fails(one))) continue;
      best = one;
      return true;
    }
    return false;
  };
  for (const cut of LARGE) await succeeds(cut, SEEDS_TRIED);
  for (let isShorter = true; isShorter; ) {
    isShorter = false;
    for (const cut of smallCuts(best)) if (await succeeds(cut, 1)) isShorter = true;
  }
  return best;
}
