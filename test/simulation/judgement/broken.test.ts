import { expect, test } from "vitest";
import { BROKEN, BROKEN_NAMES, type BrokenName } from "../../fleet/faults/environment/broken-builds.ts";
import { PROGRAM_LIMIT_MS, runSimulated } from "../program.ts";
import type { BrokenFinding } from "./broken.program.ts";

const PROGRAM = new URL("./broken.program.ts", import.meta.url);
/** The seeds within which every broken build is revealed. */
const SEEDS_MAX = 40;
const RUNS_MAX = 30;
/** A short story: the faults, the steps of all agents, and the lines of its text. */
const SHORT = { faults: 3, steps: 30, lines: 100 };

async function findings(
  names: readonly BrokenName[],
  limits: { readonly runsMax: number },
): Promise<BrokenFinding[]> {
  const args = [String(SEEDS_MAX), String(limits.runsMax), ...names];
  return JSON.parse(await runSimulated(PROGRAM, args)) as BrokenFinding[];
}

test("every broken build is revealed within a few seeds by the violation of its guarantee", {
  timeout: PROGRAM_LIMIT_MS,
}, async () => {
  const found = await findings(BROKEN_NAMES, { runsMax: 0 });
  expect(found.filter(({ seed }) => seed === null).map(({ name, others }) => ({ name, others }))).toEqual([]);
  expect(found.map(({ name }) => name)).toEqual(BROKEN_NAMES);
});

test("the story of a broken build is cut short and names the violated guarantee", {
  timeout: PROGRAM_LIMIT_MS,
}, async () => {
  const [found] = await findings(["fence_off"], { runsMax: RUNS_MAX });
  const { story, narrative } = found!;
  expect(narrative[0]).toContain(BROKEN.fence_off.revealedBy);
  const { events, bus, store, steps } = story!;
  const faults = [...Object.values(bus), store.conflicts, store.unknown, store.stalls, store.pauses];
  expect(
    events.length + faults.filter((share) => typeof share === "number" && share > 0).length,
  ).toBeLessThanOrEqual(SHORT.faults);
  expect(steps.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(SHORT.steps);
  expect(narrative.length).toBeLessThanOrEqual(SHORT.lines);
});
