import { expect, test } from "vitest";
import { runSimulated } from "./program.ts";

const MAIN = new URL("./seeds.program.ts", import.meta.url);

interface Line {
  readonly seed: number;
  readonly digest: string;
  readonly commands: number;
  readonly violations: readonly { readonly kind: string }[];
}

async function linesOf(...args: string[]): Promise<Line[]> {
  const text = await runSimulated(MAIN, [...args, "--calm", "--json"]);
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

test("whole fleets without faults keep their promises, and a seed gives one history in any process", {
  timeout: 600_000,
}, async () => {
  const [all, alone] = await Promise.all([
    linesOf("--seed", "1", "--seeds", "6"),
    linesOf("--seed", "4", "--seeds", "3"),
  ]);
  expect(all.flatMap(({ violations }) => violations)).toEqual([]);
  expect(all.reduce((sum, { commands }) => sum + commands, 0)).toBeGreaterThan(100);
  expect(all.slice(3).map(({ digest }) => digest)).toEqual(alone.map(({ digest }) => digest));
  expect(new Set(all.map(({ digest }) => digest)).size).toBe(6);
});
