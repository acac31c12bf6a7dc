/** The record of many seeds as JSON: what `npm run simulate -- --record FILE` writes, and the report shows. */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { inspectMachine, type Machine } from "../load/measure/machine.ts";
import { type MeasuredTree, measuredTree } from "../load/measure/stored-run.ts";
import type { SimulateOptions } from "./options.ts";
import type { SeedCounts, SeedTotals } from "./totals.ts";

export interface SimulationRecord {
  readonly simulation: MeasuredTree & {
    /** When it began. */
    readonly at: string;
    readonly first_seed: number;
    readonly size: number;
    readonly minutes: number;
    /** false: it still ran when this was written. */
    readonly ended: boolean;
  };
  readonly machine: Machine;
  readonly counts: SeedCounts;
  readonly failing_seed: number | null;
}

/** Writes what is known so far; the file is always whole, so that a run that is killed leaves its last record. */
export type Recorder = (totals: SeedTotals, ended: boolean) => void;

export async function openRecord(path: string, { first, size }: SimulateOptions): Promise<Recorder> {
  const begin = { at: new Date().toISOString(), ...measuredTree(), first_seed: first, size };
  const machine = await inspectMachine();
  mkdirSync(dirname(path), { recursive: true });
  return (totals, ended) => {
    const minutes = Math.round(totals.minutes * 10) / 10;
    const record: SimulationRecord = {
      simulation: { ...begin, minutes, ended },
      ...{ machine, counts: totals.counts, failing_seed: totals.failing },
    };
    writeFileSync(`${path}.new`, `${JSON.stringify(record, null, 2)}\n`);
    renameSync(`${path}.new`, path);
  };
}
