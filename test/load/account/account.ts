// The processor time of a load by part: each thread's time as the system counts it, divided by the samples of its profile.

import { cpus } from "node:os";
import { processorTime, threadTimes } from "../measure/cpu-time.ts";
import { type Row, row } from "../measure/targets.ts";
import { PARTS, type Part, THREADS } from "./parts.ts";
import { type CpuProfile, monotonicUs, readProfiles, runs, samplesByPart, type TimeSpan } from "./profile.ts";

export interface AccountedProcesses {
  readonly fleet: number;
  readonly natsServer: number | null;
  readonly clients: number;
}

/** The microseconds of processor time since the account began. */
export interface UsedTimes {
  readonly span: TimeSpan;
  /** Of the fleet's threads, by name. */
  readonly threads: ReadonlyMap<string, number>;
  readonly fleet: number;
  readonly natsServer: number;
  readonly clients: number;
  /** Of all cores. */
  readonly idle: number;
  readonly busy: number;
}

export interface Account {
  readonly parts: ReadonlyMap<Part, number>;
  /** Of the processes, as the system counts it. */
  readonly total: number;
}

/** Begins to measure; the result returns what was used since. Throws where the system does not count it. */
export function beginAccount({ fleet, natsServer, clients }: AccountedProcesses): () => UsedTimes {
  const from = monotonicUs();
  const processes = [fleet, natsServer, clients].map(processorTime);
  const threads = threadTimes(fleet);
  const machine = machineTimes();
  return () => {
    const [ofFleet, ofNats, ofClients] = processes.map((used) => used());
    const byThread = threads();
    if (ofFleet == null || ofNats == null || ofClients == null || byThread === null)
      throw new Error("this system does not report the processor time of processes and threads");
    const now = machineTimes();
    return {
      span: { from, to: monotonicUs() },
      threads: byThread,
      fleet: ofFleet,
      natsServer: ofNats,
      clients: ofClients,
      idle: now.idle - machine.idle,
      busy: now.busy - machine.busy,
    };
  };
}

function machineTimes(): { idle: number; busy: number } {
  let idle = 0;
  let busy = 0;
  for (const { times } of cpus()) {
    idle += times.idle * 1_000;
    busy += (times.user + times.nice + times.sys + times.irq) * 1_000;
  }
  return { idle, busy };
}

/** Divides the times among the parts. */
export function divide(used: UsedTimes, profiles: readonly CpuProfile[]): Account {
  const parts = new Map<Part, number>();
  const add = (part: Part, us: number) => parts.set(part, (parts.get(part) ?? 0) + us);
  add("clients", used.clients);
  add("nats-server", used.natsServer);
  for (const [name, us] of used.threads) {
    const share = THREADS[name];
    if (share === undefined) continue;
    if ("part" in share) {
      add(share.part, us);
      continue;
    }
    const samples = new Map<Part, number>();
    for (const profile of profiles.filter((one) => runs(one, share.program))) {
      for (const [part, count] of samplesByPart(profile, used.span)) {
        const own = share.within !== undefined && !part.startsWith("garbage") ? share.within : part;
        samples.set(own, (samples.get(own) ?? 0) + count);
      }
    }
    const all = [...samples.values()].reduce((sum, count) => sum + count, 0);
    for (const [part, count] of samples) add(part, (us * count) / all);
  }
  return { parts, total: used.fleet + used.natsServer + used.clients };
}

/** The rows of the benchmark, for each of `commits`. The processes must have ended. */
export function accountRows(used: UsedTimes, folder: string, pid: number, commits: number): Row[] {
  const { parts, total } = divide(used, readProfiles(folder, pid));
  const sum = [...parts.values()].reduce((all, us) => all + us, 0);
  const perCommit = (what: string, us: number) => row(`account: ${what}`, us / commits, "µs/commit");
  return [
    ...PARTS.map((part) => perCommit(part, parts.get(part) ?? 0)),
    perCommit("sum of the parts", sum),
    perCommit("all processes, as the system counts them", total),
    perCommit("not accounted", total - sum),
    perCommit("other programs of this machine", used.busy - total),
    perCommit("idle, all cores", used.idle),
  ];
}
