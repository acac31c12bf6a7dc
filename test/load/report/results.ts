// The stored runs of the benchmark, from which the report is made.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { SimulationRecord } from "../../simulation/record.ts";
import type { StoredRun } from "../measure/stored-run.ts";
import type { MeasuredGroup } from "../measure/table.ts";
import type { Row } from "../measure/targets.ts";
import { GROUPS } from "../options.ts";

export const RESULTS = fileURLToPath(new URL("../results", import.meta.url));
export const SIMULATIONS = fileURLToPath(new URL("../../simulation/results", import.meta.url));

export interface NamedRun extends StoredRun {
  /** The name of its file, without the extension. */
  readonly name: string;
}

export interface NamedSimulation extends SimulationRecord {
  readonly name: string;
}

/** A group with the run that measured it. */
export interface GroupOfRun {
  readonly run: NamedRun;
  readonly group: MeasuredGroup;
}

/** The oldest first. */
export function readRuns(folder: string): NamedRun[] {
  return readFolder(folder, readRun).sort((a, b) => (a.run.at < b.run.at ? -1 : 1));
}

/** The oldest first. */
export function readSimulations(folder: string): NamedSimulation[] {
  return readFolder(folder, readSimulation).sort((a, b) => (a.simulation.at < b.simulation.at ? -1 : 1));
}

/** git keeps no empty folder, so one without a run may be absent. */
function readFolder<T>(folder: string, read: (path: string) => T): (T & { name: string })[] {
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder).filter((file) => file.endsWith(".json"));
  return files.map((file) => ({ ...read(join(folder, file)), name: file.slice(0, -".json".length) }));
}

const parsed = <T>(path: string): Partial<T> => JSON.parse(readFileSync(path, "utf8")) as Partial<T>;

function readSimulation(path: string): SimulationRecord {
  const { simulation, machine, counts, failing_seed } = parsed<SimulationRecord>(path);
  if (simulation === undefined || machine === undefined || counts === undefined || failing_seed === undefined)
    throw new Error(`${path} is no record of a simulation; write it with npm run simulate -- --record FILE`);
  return { simulation, machine, counts, failing_seed };
}

function readRun(path: string): StoredRun {
  const { run, machine, groups, failures } = parsed<StoredRun>(path);
  if (run === undefined || machine === undefined || groups === undefined || failures === undefined)
    throw new Error(`${path} is no run of the benchmark; write it with npm run bench -- --json FILE`);
  return { run, machine, groups, failures };
}

/** Each group on each store from the newest run that measured it, in the order of the benchmark. */
export function newestGroups(runs: readonly NamedRun[]): GroupOfRun[] {
  const newest = new Map<string, GroupOfRun>();
  for (const run of runs)
    for (const group of run.groups) newest.set(`${group.name} ${group.store}`, { run, group });
  const place = ({ group }: GroupOfRun): number => (GROUPS as readonly string[]).indexOf(group.name);
  return [...newest.values()].sort((a, b) => place(a) - place(b));
}

export function rowOf(
  { groups }: Pick<StoredRun, "groups">,
  wanted: { readonly group: string; readonly store: string; readonly what: string },
): Row | undefined {
  return groups
    .find(({ name, store }) => name === wanted.group && store === wanted.store)
    ?.rows.find(({ what }) => what === wanted.what);
}
