// A FoundationDB cluster of several server processes in zones. A zone stands for a machine: its processes are killed and frozen
// together. With two copies and a coordinator in each of three zones the cluster works without one of them.
import { freePort } from "../free-port.ts";
import type { FoundationdbMachine } from "./foundationdb-machine.ts";
import { type FdbserverProcess, fdbserverProcess, machineOf } from "./foundationdb-process.ts";

const ZONES = ["zone-1", "zone-2", "zone-3"] as const;
const PROCESSES_EACH = 2;

export type Zone = Omit<FdbserverProcess, "address">;

export interface ZonedMachine extends FoundationdbMachine {
  readonly zones: ReadonlyMap<string, Zone>;
}

export async function zonedMachine(directory: string, clusterFile: string): Promise<ZonedMachine> {
  const zones = new Map<string, Zone>();
  const coordinators: string[] = [];
  for (const zone of ZONES) {
    const processes: FdbserverProcess[] = [];
    for (let i = 0; i < PROCESSES_EACH; i += 1)
      processes.push(fdbserverProcess({ port: await freePort(), directory, clusterFile, zone }));
    coordinators.push(processes[0]!.address);
    zones.set(zone, together(processes));
  }
  const address = coordinators.join();
  const all = { address, ...together([...zones.values()]) };
  return { ...machineOf(all, `test:test@${address}`, clusterFile), zones };
}

function together(parts: readonly Zone[]): Zone {
  const each = async (act: (part: Zone) => Promise<void>) => void (await Promise.all(parts.map(act)));
  return {
    start: () => each((part) => part.start()),
    kill: () => each((part) => part.kill()),
    pause() {
      for (const part of parts) part.pause();
    },
    continue() {
      for (const part of parts) part.continue();
    },
  };
}
