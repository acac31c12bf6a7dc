import { expect, test } from "vitest";
import { BROKEN_NAMES } from "../../fleet/faults/environment/broken-builds.ts";
import { runSimulated } from "../program.ts";
import type { BrokenFinding } from "./broken.program.ts";

const PROGRAM = new URL("./broken.program.ts", import.meta.url);
/** The seeds within which every broken build is revealed. */
const SEEDS_MAX = 10;

test("every broken build is revealed within a few seeds by the violation of its guarantee", {
  timeout: 600_000,
}, async () => {
  const args = [String(SEEDS_MAX), "0", ...BROKEN_NAMES];
  const found = JSON.parse(await runSimulated(PROGRAM, args)) as BrokenFinding[];
  expect(found.filter(({ seed }) => seed === null).map(({ name, others }) => ({ name, others }))).toEqual([]);
  expect(found.map(({ name }) => name)).toEqual(BROKEN_NAMES);
});
