import { expect, test } from "vitest";
import { PROGRAM_LIMIT_MS, runSimulated } from "./program.ts";
import type { SeedLine } from "./totals.ts";

const MAIN = new URL("./seeds.program.ts", import.meta.url);
/** The seeds of each of two processes, and those that both run: the last ones of the first, the first ones of the second. */
const SEEDS = 30;
const SHARED = 11;

async function linesOf(first: number): Promise<SeedLine[]> {
  const text = await runSimulated(MAIN, ["--seed", String(first), "--seeds", String(SEEDS), "--json"]);
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as SeedLine);
}

const sumOf = (lines: readonly SeedLine[], count: (line: SeedLine) => number): number =>
  lines.reduce((sum, line) => sum + count(line), 0);

test("whole fleets keep their promises under faults, and a seed gives one history byte for byte in any process", {
  timeout: PROGRAM_LIMIT_MS,
}, async () => {
  const [first, second] = await Promise.all([linesOf(1), linesOf(1 + SEEDS - SHARED)]);
  const lines = [...first, ...second];
  expect(lines.flatMap(({ seed, violations }) => violations.map((one) => ({ seed, ...one })))).toEqual([]);
  const digests = (row: readonly SeedLine[]) => row.map(({ seed, digest }) => ({ seed, digest }));
  expect(digests(second.slice(0, SHARED))).toEqual(digests(first.slice(-SHARED)));
  expect(new Set(lines.map(({ digest }) => digest)).size).toBe(lines.length - SHARED);
  expect(sumOf(lines, ({ commands }) => commands)).toBeGreaterThan(20 * lines.length);
  expect(sumOf(lines, ({ kills }) => kills)).toBeGreaterThan(lines.length);
  expect(sumOf(lines, ({ spooled }) => spooled)).toBeGreaterThan(0);
  expect(sumOf(lines, ({ launched }) => launched)).toBeGreaterThan(0);
  expect(sumOf(lines, ({ zombies }) => zombies.refused)).toBeGreaterThan(0);
});
