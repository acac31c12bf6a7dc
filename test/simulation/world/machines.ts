/** The two machines of a simulated fleet. */
import { seededRandom } from "../../load/workload.ts";
import type { SimulatedBusServer } from "../bus/server.ts";
import { SimulatedFiles } from "../machine/file-system.ts";
import { type Machines, SimulatedMachine, useMachine } from "../machine/machine.ts";
import { ProcessTable } from "../machine/process-table.ts";
import type { Fingerprint } from "../time/fingerprint.ts";
import type { WorldHost } from "./host.ts";
import { shimProgram } from "./runner.ts";

interface MachineParts {
  readonly seed: number;
  readonly server: SimulatedBusServer;
  readonly fingerprint: Fingerprint;
  readonly host: () => WorldHost;
}

export function openMachines({ seed, server, fingerprint, host }: MachineParts): Machines {
  const open = (name: keyof Machines, ownSeed: number): SimulatedMachine => {
    const observe = (change: string, bytes: Uint8Array): void => fingerprint.add(`${name} ${change}`, bytes);
    const files = new SimulatedFiles({ random: seededRandom(ownSeed), observe });
    const processes = new ProcessTable((process) => server.kill(process.name));
    // The parents of agents are all that is started there.
    const programOf = ([, folder]: readonly string[]) => shimProgram(host, processes, folder!);
    return new SimulatedMachine({ files, processes, programOf });
  };
  const machines = { services: open("services", seed + 2), agents: open("agents", seed + 3) };
  useMachine(machines.agents);
  return machines;
}
