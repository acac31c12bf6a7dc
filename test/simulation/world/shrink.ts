/** Cuts a failing story short: what is taken away without the failure was no part of it. */
import { NO_STORE_FAULTS } from "../store/database.ts";
import type { Story } from "./story.ts";

/** Every story that is one cut shorter. */
function* shorter(story: Story): Generator<Story> {
  for (const [n] of story.events.entries())
    yield { ...story, events: story.events.filter((_, index) => index !== n) };
  for (const [name, value] of Object.entries(story.bus))
    if (typeof value === "number" && value > 0) yield { ...story, bus: { ...story.bus, [name]: 0 } };
  for (const name of ["conflicts", "unknown", "stalls", "pauses"] as const)
    if (story.store[name] > 0) yield { ...story, store: { ...story.store, [name]: NO_STORE_FAULTS[name] } };
  if (story.tasks > 0) yield { ...story, tasks: story.tasks - 1 };
  for (const [n, steps] of story.steps.entries())
    if (steps > 0)
      yield { ...story, steps: story.steps.map((one, index) => (index === n ? steps >> 1 : one)) };
}

/** `fails` runs a story. Resolves with a story of which no single part can be taken away, or with the best after `runsMax` runs. */
export async function shrink(
  story: Story,
  fails: (story: Story) => Promise<boolean>,
  runsMax: number,
): Promise<Story> {
  let best = story;
  let runs = 0;
  for (let isShorter = true; isShorter; ) {
    isShorter = false;
    for (const one of shorter(best)) {
      if (runs >= runsMax) return best;
      runs += 1;
      if (!(await fails(one))) continue;
      best = one;
      isShorter = true;
      break;
    }
  }
  return best;
}
