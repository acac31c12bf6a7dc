/** A simulated machine: its files, their locks, and its processes. */

import { seededRandom } from "../../load/workload.ts";
import { currentProcess, type SimulatedProcess } from "../time/processes.ts";
import { type ActiveSimulation, activeSimulation } from "../time/run.ts";
import { SimulatedFiles } from "./file-system.ts";
import { FolderLocks } from "./folder-locks.ts";
import { ProcessTable, type Program } from "./process-table.ts";

export interface MachineParts {
  readonly files: SimulatedFiles;
  readonly processes: ProcessTable;
  /** The program that `spawn` starts with these arguments. */
  readonly programOf: (args: readonly string[]) => Program;
}

export class SimulatedMachine {
  readonly files: SimulatedFiles;
  readonly processes: ProcessTable;
  readonly locks = new FolderLocks();
  readonly programOf: MachineParts["programOf"];
  #spawned = 0;

  constructor({ files, processes, programOf }: MachineParts) {
    this.files = files;
    this.processes = processes;
    this.programOf = programOf;
  }

  /** A name for a process that has no other one. */
  nextName(): string {
    this.#spawned += 1;
    return `spawned-${this.#spawned}`;
  }

  cutPower(): void {
    this.processes.cutPower();
    this.files.cutPower();
  }
}

/** Those of a fleet. */
export interface Machines {
  /** That of all services and their store. */
  readonly services: SimulatedMachine;
  /** That of every other program. */
  readonly agents: SimulatedMachine;
}

const machines = new WeakMap<ActiveSimulation, SimulatedMachine>();
const placed = new WeakMap<SimulatedProcess, SimulatedMachine>();

/** From now on the processes of the active simulation run on this machine. */
export function useMachine(machine: SimulatedMachine): void {
  machines.set(activeSimulation()!, machine);
}

/** The only machine of the active simulation, on which nothing is started. */
export function useLoneMachine(seed: number): SimulatedMachine {
  const files = new SimulatedFiles({ random: seededRandom(seed) });
  const processes = new ProcessTable(() => {});
  const machine = new SimulatedMachine({ files, processes, programOf: () => async () => 0 });
  useMachine(machine);
  return machine;
}

/** This process runs on another one. */
export function placeOn(machine: SimulatedMachine, process: SimulatedProcess): void {
  placed.set(process, machine);
}

/** That of the running code. */
export function activeMachine(): SimulatedMachine | undefined {
  const simulation = activeSimulation();
  if (simulation === undefined) return undefined;
  const own = currentProcess();
  return (own && placed.get(own)) ?? machines.get(simulation);
}
