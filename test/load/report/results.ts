// The stored runs of the benchmark, from which the report is made.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { StoredRun } from "../measure/stored-run.ts";
import type { MeasuredGroup } from "../measure/table.ts";
import type { Row } from "../measure/targets.ts";
import { GROUPS } from "../options.ts";

export const RESULTS = fileURLToPath(new URL("../results", import.meta.url));

export interface NamedRun extends StoredRun {
  /** The name of its file, without the extension. */
  readonly name: string;
}

/** A group with the run that measured it. */
export interface GroupOfRun {
  readonly run: NamedRun;
  readonly group: MeasuredGroup;
}

/** The oldest first. */
export function readRuns(folder: string): NamedRun[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith(".json"))
    .map((file) => ({ ...readRun(join(folder, file)), name: file.slice(0, -".json".length) }))
    .sort((a, b) => (a.run.at < b.run.at ? -1 : 1));
}

function readRun(path: string): StoredRun {
  const stored = JSON.parse(readFileSync(path, "utf8")) as Partial<StoredRun>;
  const { run, machine, groups, failures } = stored;
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
