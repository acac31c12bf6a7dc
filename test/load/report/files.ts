// The files of the report, by their path in the folder of the benchmark.

import { fileURLToPath } from "node:url";
import { reportPage } from "./page.ts";
import { plotsOf } from "./plots.ts";
import type { NamedRun, NamedSimulation } from "./results.ts";

export const LOAD = fileURLToPath(new URL("..", import.meta.url));

export function reportFiles(
  runs: readonly NamedRun[],
  simulations: readonly NamedSimulation[] = [],
): ReadonlyMap<string, string> {
  const plots = plotsOf(runs);
  return new Map([
    ["REPORT.md", reportPage(runs, plots, simulations)],
    ...plots.map(({ name, svg }) => [`plots/${name}.svg`, svg] as const),
  ]);
}
