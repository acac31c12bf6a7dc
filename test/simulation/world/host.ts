/** What the processes of a simulated fleet share: the bus, the store, the rules, and the history that they record. */
import type { Bus } from "../../../shared/bus/bus.ts";
import { type Policies, policySchema } from "../../../shared/protocol/policy.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createDiskSpace, type DiskSpace } from "../../../shared/runtime/disk-space.ts";
import { createMetrics, type Metrics } from "../../../shared/runtime/observability/metrics.ts";
import type { HistorySink, Line } from "../../fleet/faults/agents/history.ts";
import type { BrokenName } from "../../fleet/faults/environment/broken-builds.ts";
import type { KillPlan } from "../../fleet/faults/environment/kill-points.ts";
import { POLICY } from "../../fleet/faults/environment/policy.ts";
import type { Outage } from "../../harness/stores/outage-store.ts";
import type { SimulatedBusServer } from "../bus/server.ts";
import type { Machines } from "../machine/machine.ts";
import { SILENT_LOG } from "../silent-log.ts";
import type { SimulatedDatabase } from "../store/database.ts";
import { currentProcess } from "../time/processes.ts";
import type { Protection } from "./protection.ts";

export const SIMULATED_POLICIES: Policies = policySchema.parse(POLICY);

/** The lines of all simulated processes in their order. */
export class SharedHistory implements HistorySink {
  readonly lines: Line[] = [];

  async append(line: Line): Promise<void> {
    this.lines.push(line);
  }
}

export interface WorldHost {
  readonly server: SimulatedBusServer;
  readonly database: SimulatedDatabase;
  readonly disk: DiskSpace;
  readonly machines: Machines;
  readonly history: SharedHistory;
  /** One for all processes, because their numbers are of no use and their definition takes milliseconds. */
  readonly metrics: Metrics;
  readonly broken: BrokenName | null;
  /** The kills at kill points, and the end of the random failures of workers. */
  readonly kills: Omit<KillPlan, "killAt">;
  /** The state of the store for the services. */
  outage: Outage;
  readonly protection: Protection;
  /** Whether writers remove old checkpoints. */
  readonly removes: boolean;
  /** Changes the stored bytes of a checkpoint. Resolves when that is done. */
  readonly damage: (task: string, checkpointId: string) => Promise<void>;
}

export const openMetrics = (): Metrics => createMetrics({ ofProcess: false });

export const openDisk = (): DiskSpace => createDiskSpace([], { clock: systemClock });

/** The kill points of the current process. */
export function killsOf({ kills }: Pick<WorldHost, "kills">): KillPlan {
  const own = currentProcess();
  const killAt = (): Promise<never> => {
    own?.kill();
    return new Promise(() => {});
  };
  return { ...kills, killAt };
}

/** The connections of no process: those that watch the fleet. */
export const OUTSIDE = "outside";

/** A connection of the current process, which ends with it. */
export function connectHost(
  { server }: Pick<WorldHost, "server">,
  options: { readonly identity: string; readonly tenant?: string; readonly messageKey?: string },
): Promise<Bus> {
  const name = currentProcess()?.name ?? OUTSIDE;
  return server.connect({ name, log: SILENT_LOG, ...options });
}
