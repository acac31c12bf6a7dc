/** One round: a fresh fleet, its faults, its repair, and the verdict over all that was recorded. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FoundationdbServer } from "../../harness/stores/foundationdb.ts";
import { type Attempt, pairedHistory, readHistory } from "./agents/history.ts";
import { keepBus } from "./bus-dump.ts";
import { judge, type Verdict } from "./checker/checker.ts";
import type { Violation } from "./checker/evidence.ts";
import type { BrokenName } from "./environment/broken.ts";
import { type Death, type FaultFleet, isShared, type Shape, startFaultFleet } from "./environment/fleet.ts";
import { openZone, type Zone } from "./environment/zone.ts";
import { readStore, readStreams } from "./final-state.ts";
import { Nemesis, targetsOf } from "./plan/nemesis.ts";
import { type FaultKind, type Planning, planFaults } from "./plan/plan.ts";
import { heal, type Repair, recover } from "./repair.ts";
import type { OfficeOrder } from "./workers/office.ts";

export interface RoundOptions {
  readonly name: string;
  readonly shape: Shape;
  readonly smallDisk: boolean;
  /** Absent: the embedded store. */
  readonly foundationdb: FoundationdbServer | undefined;
  readonly seed: number;
  readonly durationMs: number;
  readonly broken: BrokenName | null;
  /** Kinds of faults to plan; null: all that are possible. */
  readonly kinds: readonly FaultKind[] | null;
  readonly keepEvidence: boolean;
  readonly say: (text: string) => void;
  /** Ends the faults early; repair and verdict follow all the same. */
  readonly signal: AbortSignal;
}

export interface RoundResult {
  readonly name: string;
  readonly engine: "lmdb" | "foundationdb";
  readonly shape: Shape;
  readonly seed: number;
  readonly seconds: number;
  /** The agents' own calls, by operation and outcome. */
  readonly operations: Readonly<Record<string, number>>;
  /** Commands that were sent again, by how and outcome. */
  readonly copies: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  /** Kills at moments that the killed chose. */
  readonly deaths: Readonly<Record<string, number>>;
  /** Starts after a kill, and after an end of the process's own. */
  readonly restarts: { readonly after_kill: number; readonly own: number };
  readonly quiet_ms: number;
  /** Commands that were told `queued` or `spooled`; by the end each was applied, or is a dead letter. */
  readonly queue: { readonly queued: number; readonly spooled: number; readonly dead: number };
  readonly checked: Verdict["checked"];
  readonly zombies: Verdict["zombies"];
  readonly handoffs: Verdict["handoffs"];
  readonly recoveries: Verdict["recoveries"];
  readonly violations: readonly Violation[];
  /** Where the evidence is; null when it was removed. */
  readonly evidence: string | null;
}

const SAY_EVERY_MS = 10_000;
/** By then a fleet has come to rest; a broken one may never do, and has shown what it does long before. */
const QUIET_MS = { correct: 90_000, broken: 12_000 };
const FAULT_LOG = "faults.jsonl";
/** Before the end of the faults nobody chooses a moment to die any more. */
const CALM_MS = 1_000;

/** Deaths at moments of a process's own choosing belong to the faults that kill agents. */
const mayDie = (kinds: readonly FaultKind[] | null): boolean => kinds?.includes("kill_agents") ?? true;

export async function runRound(o: RoundOptions): Promise<RoundResult> {
  const zone = openZone({ smallDisk: o.smallDisk });
  const storeUrl =
    o.foundationdb === undefined
      ? `lmdb:${join(zone.data, "store")}${isShared(o) ? "?shared" : ""}`
      : `fdb:${o.foundationdb.clusterFile}`;
  let operations = 0;
  const leaveNothing = (): void => {
    fleet?.destroy();
    zone.release();
  };
  process.once("exit", leaveNothing);
  let fleet: FaultFleet | undefined;
  try {
    fleet = await startFaultFleet({
      ...o,
      zone,
      storeUrl,
      deathsMs: mayDie(o.kinds) ? Math.max(0, o.durationMs - CALM_MS) : 0,
      onProgress: ({ done }) => {
        for (const count of Object.values(done)) operations += count;
      },
    });
    const begin = performance.now();
    const faults = await endure(o, { fleet, zone, operations: () => operations });
    const recovered = await finish(fleet, zone, o.broken === null ? QUIET_MS.correct : QUIET_MS.broken);
    const history = pairedHistory(readHistory(zone.history));
    await fleet.close();
    const streams = await readStreams(fleet.nats.url);
    const truth = { ...(await readStore(storeUrl)), ...streams };
    const kills = [...faults.kills, ...fleet.deaths.map(({ at }) => at)];
    const verdict = judge({ ...history, truth, beats: fleet.witness.beats }, kills);
    const violations = [...recovered.violations, ...verdict.violations];
    return {
      name: o.name,
      engine: o.foundationdb === undefined ? "lmdb" : "foundationdb",
      shape: o.shape,
      seed: o.seed,
      seconds: (performance.now() - begin) / 1_000,
      ...countCalls(history.attempts),
      faults: faults.counts,
      deaths: countDeaths(fleet.deaths),
      restarts: restartsOf(fleet),
      quiet_ms: Math.round(recovered.quietMs),
      queue: countQueue(history.attempts, truth.dead.length),
      checked: verdict.checked,
      zombies: verdict.zombies,
      handoffs: verdict.handoffs,
      recoveries: verdict.recoveries,
      violations,
      evidence: await leave(o, fleet, zone, violations),
    };
  } finally {
    process.removeListener("exit", leaveNothing);
    leaveNothing();
    for (const proxy of fleet?.proxies.values() ?? []) await proxy.close();
  }
}

interface Running {
  readonly fleet: FaultFleet;
  readonly zone: Zone;
  readonly operations: () => number;
}

async function endure(
  o: RoundOptions,
  { fleet, zone, operations }: Running,
): Promise<Pick<Nemesis, "counts" | "kills">> {
  const { smallDisk, foundationdb, seed, durationMs, name, say, signal } = o;
  const field = {
    fleet,
    zone,
    smallDisk,
    fdbserver: foundationdb?.control,
    faultLog: join(zone.root, FAULT_LOG),
  };
  const nemesis = new Nemesis(field);
  const begin = performance.now();
  const report = (what: string): void => {
    const seconds = Math.round((performance.now() - begin) / 1_000);
    say(
      `${name.padEnd(10)} ${String(seconds).padStart(4)} s  ${operations()} operations, ${nemesis.total} faults${what}`,
    );
  };
  const saying = setInterval(report, SAY_EVERY_MS, "");
  const plan = planFaults({ seed, durationMs, targets: chosen(targetsOf(field), o.kinds) });
  await nemesis.run(plan, durationMs, signal).finally(() => clearInterval(saying));
  report("; repairing and checking");
  return nemesis;
}

function chosen(targets: Planning["targets"], kinds: readonly FaultKind[] | null): Planning["targets"] {
  if (kinds === null) return targets;
  return Object.fromEntries(kinds.map((kind) => [kind, targets[kind] ?? []]));
}

/** Repairs, waits, resolves, and stops everything but the bus. */
async function finish(fleet: FaultFleet, zone: Zone, quietMs: number): Promise<Repair> {
  await heal(fleet, zone);
  const violations: Violation[] = [];
  const failed = (process: string, text: string, details: object): void => {
    violations.push({ kind: "process_failed", task: null, text, details: { process, ...details } });
  };
  for (const one of fleet.agents) {
    const ending = await one.stop({ message: { stop: true } });
    if (ending !== null) failed(one.name, "the agents did not end well", ending);
  }
  fleet.office.send({ closing: true } satisfies OfficeOrder);
  const recovered = await recover({ fleet, zone, quietMs }, async () => {
    for (const one of [...fleet.takers, ...fleet.workers, fleet.office]) {
      const ending = await one.stop({ message: { stop: true } });
      if (ending !== null) failed(one.name, "those who take tasks did not end well", ending);
    }
  });
  for (const one of fleet.services) {
    const ending = await one.stop("SIGTERM");
    if (ending !== null) failed(one.name, "a service did not stop cleanly", ending);
  }
  for (const one of [...fleet.services, ...fleet.agents, ...fleet.takers, ...fleet.workers, fleet.office]) {
    for (const ending of one.endings) {
      if (ending.wasReady) failed(one.name, "a process that was up ended by itself", { ...ending });
    }
  }
  return { ...recovered, violations: [...recovered.violations, ...violations] };
}

function countCalls(attempts: readonly Attempt[]): Pick<RoundResult, "operations" | "copies"> {
  const operations: Record<string, number> = {};
  const copies: Record<string, number> = {};
  for (const { op, copy, outcome, code } of attempts) {
    const ending = outcome === "refused" ? (code ?? outcome) : outcome;
    const [counts, name] =
      copy === undefined ? [operations, `${op} ${ending}`] : [copies, `${copy} ${ending}`];
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return { operations, copies };
}

function countQueue(attempts: readonly Attempt[], dead: number): RoundResult["queue"] {
  const told = (how: string): number =>
    new Set(attempts.flatMap(({ outcome, command_id }) => (outcome === how ? [command_id] : []))).size;
  return { queued: told("queued"), spooled: told("spooled"), dead };
}

function countDeaths(deaths: readonly Death[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { moment } of deaths) counts[moment] = (counts[moment] ?? 0) + 1;
  return counts;
}

function restartsOf({
  services,
  agents,
  takers,
  workers,
  office,
  nats,
}: FaultFleet): RoundResult["restarts"] {
  const processes = [...services, ...agents, ...takers, ...workers, office];
  const starts = processes.reduce((sum, one) => sum + one.starts - 1, nats.starts - 1);
  const own = processes.reduce((sum, one) => sum + one.endings.length, nats.ownEndings);
  return { after_kill: Math.max(0, starts - own), own };
}

/** Evidence stays when something is wrong, and where it was asked for. */
async function leave(
  o: RoundOptions,
  fleet: FaultFleet,
  zone: Zone,
  violations: readonly Violation[],
): Promise<string | null> {
  const isFine = violations.length === 0;
  if (!isFine) await keepBus(fleet.nats.url, zone.root);
  await fleet.nats.stop();
  if (isFine && !o.keepEvidence) {
    zone.remove();
    return null;
  }
  writeFileSync(join(zone.root, "beats.json"), JSON.stringify(fleet.witness.beats));
  writeFileSync(join(zone.root, "violations.json"), `${JSON.stringify(violations, null, 2)}\n`);
  zone.rescue();
  return zone.root;
}
