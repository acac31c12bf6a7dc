import { expect, test } from "vitest";
import { PROGRAM_LIMIT_MS, runSimulated } from "./program.ts";
import type { SeedLine } from "./totals.ts";

const MAIN = new URL("./seeds.program.ts", import.meta.url);
const LIMITS = { timeout: PROGRAM_LIMIT_MS };
/** The seeds of each of two processes, and those that both run: the last ones of the first, the first ones of the second. */
const SEEDS = 20;
const SHARED = 7;
const BRIEF_SEEDS = 300;

async function linesOf(first: number, seeds: number, ...args: readonly string[]): Promise<SeedLine[]> {
  const chosen = ["--seed", String(first), "--seeds", String(seeds), "--json", ...args];
  const text = await runSimulated(MAIN, chosen);
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as SeedLine);
}

const sumOf = (lines: readonly SeedLine[], count: (line: SeedLine) => number): number =>
  lines.reduce((sum, line) => sum + count(line), 0);

const violationsIn = (lines: readonly SeedLine[]) =>
  lines.flatMap(({ seed, violations }) => violations.map((one) => ({ seed, ...one })));

test(
  "whole fleets keep their promises under faults, and a seed gives one history byte for byte in any process",
  LIMITS,
  async () => {
    const [first, second] = await Promise.all([linesOf(1, SEEDS), linesOf(1 + SEEDS - SHARED, SEEDS)]);
    const lines = [...first, ...second];
    expect(violationsIn(lines)).toEqual([]);
    const digests = (row: readonly SeedLine[]) => row.map(({ seed, digest }) => ({ seed, digest }));
    expect(digests(second.slice(0, SHARED))).toEqual(digests(first.slice(-SHARED)));
    expect(new Set(lines.map(({ digest }) => digest)).size).toBe(lines.length - SHARED);
    expect(sumOf(lines, ({ commands }) => commands)).toBeGreaterThan(20 * lines.length);
    expect(sumOf(lines, ({ kills }) => kills)).toBeGreaterThan(lines.length);
    expect(sumOf(lines, ({ spooled }) => spooled)).toBeGreaterThan(0);
    expect(sumOf(lines, ({ launched }) => launched)).toBeGreaterThan(0);
    expect(sumOf(lines, ({ requested }) => requested)).toBeGreaterThan(0);
    expect(sumOf(lines, ({ zombies }) => zombies.refused)).toBeGreaterThan(0);
  },
);

test("so do hundreds of fleets with few programs and commands", LIMITS, async () => {
  const shares = [1, 1 + BRIEF_SEEDS].map((first) => linesOf(first, BRIEF_SEEDS, "--brief"));
  const lines = (await Promise.all(shares)).flat();
  expect(violationsIn(lines)).toEqual([]);
  expect(new Set(lines.map(({ digest }) => digest)).size).toBe(2 * BRIEF_SEEDS);
  expect(sumOf(lines, ({ commands }) => commands)).toBeGreaterThan(lines.length);
  expect(sumOf(lines, ({ kills }) => kills)).toBeGreaterThan(lines.length / 2);
});
