/** One round: a new fleet, its faults, their repair, and the verdict on the recorded history. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FoundationdbCluster, FoundationdbServer } from "../../harness/stores/foundationdb.ts";
import { type CallAttempt, instant, pairedHistory, readHistory } from "./agents/history.ts";
import { dumpBus } from "./bus-dump.ts";
import { judge, type Verdict } from "./checker/checker.ts";
import type { Violation } from "./checker/evidence.ts";
import type { BrokenName } from "./environment/broken-builds.ts";
import { type FaultFleet, isShared, type KillAtPoint, startFaultFleet } from "./environment/fleet.ts";
import { silenceOf } from "./environment/policy.ts";
import type { Shape } from "./environment/programs.ts";
import { openRoundFolders, type RoundFolders } from "./environment/round-folders.ts";
import { readStore, readStreams } from "./final-state.ts";
import { type Availabilities, availabilitiesOf } from "./plan/availability.ts";
import { type FaultEnvironment, Nemesis, targetsOf } from "./plan/nemesis.ts";
import { type FaultKind, type Planning, planFaults } from "./plan/plan.ts";
import { type Repair, recover, undoFaults } from "./repair.ts";
import { type RollingResult, rollThrough } from "./upgrade/rolling.ts";
import { checkVisibleErrors } from "./upgrade/visible-errors.ts";
import type { DispatcherMessage } from "./workers/dispatcher.ts";

export interface RoundOptions {
  readonly name: string;
  readonly shape: Shape;
  readonly smallDisk: boolean;
  /** Whether retention and operators remove checkpoints. */
  readonly retention: boolean;
  /** The folder of the tree from which every process is upgraded, and to which it returns; null: there are faults in place of upgrades. */
  readonly oldTree: string | null;
  /** The number of servers of the bus. */
  readonly busServers: number;
  /** The mean time between the beginnings of two faults; undefined: that of the plan. */
  readonly everyMs: number | undefined;
  /** Absent: the embedded store. */
  readonly foundationdb: FoundationdbServer | FoundationdbCluster | undefined;
  readonly seed: number;
  readonly durationMs: number;
  readonly broken: BrokenName | null;
  /** The kinds of faults to plan; null: all possible kinds. */
  readonly kinds: readonly FaultKind[] | null;
  readonly keepEvidence: boolean;
  readonly log: (text: string) => void;
  /** Ends the faults early; repair and verdict follow. */
  readonly signal: AbortSignal;
}

export interface RoundResult {
  readonly name: string;
  readonly engine: "lmdb" | "foundationdb";
  readonly shape: Shape;
  readonly seed: number;
  readonly seconds: number;
  /** The agents' calls without the copies, by operation and outcome. */
  readonly operations: Readonly<Record<string, number>>;
  /** The copies of commands, by kind and outcome. */
  readonly copies: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  /** The seconds in which a write was answered, by kind of fault. */
  readonly availability: Availabilities;
  /** The kills at kill points, by kill point. */
  readonly kill_points: Readonly<Record<string, number>>;
  /** Starts after a kill, and starts after a process ended by itself. */
  readonly restarts: { readonly after_kill: number; readonly own: number };
  readonly idle_ms: number;
  /** Commands that were answered `queued` or `spooled`. At the end each of them is applied or a dead letter. */
  readonly queue: { readonly queued: number; readonly spooled: number; readonly dead: number };
  readonly checked: Verdict["checked"];
  readonly zombies: Verdict["zombies"];
  readonly handoffs: Verdict["handoffs"];
  readonly recoveries: Verdict["recoveries"];
  readonly removals: Verdict["removals"];
  readonly violations: readonly Violation[];
  /** The folder of the evidence; null when it was removed. */
  readonly evidence: string | null;
}

const LOG_EVERY_MS = 10_000;
/** A correct fleet is idle within this time. A broken build may never be, and has violated its guarantee long before. */
const IDLE_MS = { correct: 90_000, broken: 12_000 };
const FAULT_LOG = "faults.jsonl";
/** The time before the end of the faults without kills at kill points. */
const NO_KILLS_MS = 1_000;

/** Kills at kill points belong to the faults that kill agents. */
const hasKillPoints = (kinds: readonly FaultKind[] | null): boolean => kinds?.includes("kill_agents") ?? true;

export async function runRound(o: RoundOptions): Promise<RoundResult> {
  const folders = openRoundFolders({ smallDisk: o.smallDisk });
  const storeUrl =
    o.foundationdb === undefined
      ? `lmdb:${join(folders.data, "store")}${isShared(o) ? "?shared" : ""}`
      : `fdb:${o.foundationdb.clusterFile}`;
  let operations = 0;
  const cleanUp = (): void => {
    fleet?.destroy();
    folders.release();
  };
  process.once("exit", cleanUp);
  let fleet: FaultFleet | undefined;
  try {
    fleet = await startFaultFleet({
      ...o,
      folders,
      storeUrl,
      killsMs: hasKillPoints(o.kinds) && o.oldTree === null ? Math.max(0, o.durationMs - NO_KILLS_MS) : 0,
      onProgress: ({ done }) => {
        for (const count of Object.values(done)) operations += count;
      },
    });
    const begin = performance.now();
    const from = instant();
    const faults = await (o.oldTree === null ? runFaults : runUpgrade)(o, {
      fleet,
      folders,
      operations: () => operations,
    });
    const faultPhase = { begin: from, end: instant() };
    const recovered = await finish(fleet, folders, o.broken === null ? IDLE_MS.correct : IDLE_MS.broken);
    const history = pairedHistory(readHistory(folders.history));
    await fleet.close();
    const streams = await readStreams(fleet.bus);
    const { unpublished, ...stored } = await readStore(storeUrl, folders.signingKey);
    const finalState = { ...stored, ...streams, events: [...streams.events, ...unpublished] };
    const kills = [...faults.kills, ...fleet.killsAtPoints.map(({ at }) => at)];
    const { heartbeats } = fleet.heartbeatRecorder;
    const verdict = judge(
      { ...history, finalState, heartbeats, silenceMs: silenceOf(o), lossMs: 0, hasSpools: true },
      kills,
    );
    const { violations: found, ...counts } = verdict;
    const visible = o.oldTree === null ? [] : checkVisibleErrors(history.attempts);
    const violations = [...recovered.violations, ...found, ...visible];
    return {
      name: o.name,
      engine: o.foundationdb === undefined ? "lmdb" : "foundationdb",
      shape: o.shape,
      seed: o.seed,
      seconds: (performance.now() - begin) / 1_000,
      ...countCalls(history.attempts),
      faults: faults.counts,
      availability: availabilitiesOf(history.attempts, faults.periods, faultPhase),
      kill_points: countKillPoints(fleet.killsAtPoints),
      restarts: restartsOf(fleet),
      idle_ms: Math.round(recovered.idleMs),
      queue: countQueue(history.attempts, finalState.dead.length),
      ...counts,
      violations,
      evidence: await keepEvidence(o, fleet, folders, violations),
    };
  } finally {
    process.removeListener("exit", cleanUp);
    cleanUp();
    for (const links of fleet?.links.values() ?? []) await links.close();
  }
}

interface RunningRound {
  readonly fleet: FaultFleet;
  readonly folders: RoundFolders;
  readonly operations: () => number;
}

async function runFaults(
  o: RoundOptions,
  { fleet, folders, operations }: RunningRound,
): Promise<RollingResult> {
  const { smallDisk, foundationdb, seed, durationMs, everyMs, signal } = o;
  const environment = {
    fleet,
    folders,
    smallDisk,
    ...storeServers(foundationdb),
    faultLog: join(folders.root, FAULT_LOG),
  };
  const nemesis = new Nemesis(environment);
  const endProgress = startProgress(o, () => `${operations()} operations, ${nemesis.total} faults`);
  const targets = chosen(targetsOf(environment), o.kinds);
  const plan = planFaults({ seed, durationMs, targets, ...(everyMs !== undefined && { everyMs }) });
  await nemesis.run(plan, durationMs, signal).finally(endProgress);
  return nemesis;
}

async function runUpgrade(o: RoundOptions, { fleet, operations }: RunningRound): Promise<RollingResult> {
  const endProgress = startProgress(o, () => `${operations()} operations`);
  return rollThrough(fleet, o).finally(endProgress);
}

/** Logs the progress until the returned function is called. */
function startProgress({ name, log }: RoundOptions, text: () => string): () => void {
  const begin = performance.now();
  const show = (suffix: string): void => {
    const seconds = Math.round((performance.now() - begin) / 1_000);
    log(`${name.padEnd(10)} ${String(seconds).padStart(4)} s  ${text()}${suffix}`);
  };
  const progress = setInterval(show, LOG_EVERY_MS, "");
  return () => {
    clearInterval(progress);
    show("; repairing and checking");
  };
}

function storeServers(
  foundationdb: RoundOptions["foundationdb"],
): Pick<FaultEnvironment, "fdbserver" | "fdbCluster"> {
  if (foundationdb === undefined) return { fdbserver: undefined, fdbCluster: undefined };
  if ("zones" in foundationdb) return { fdbserver: undefined, fdbCluster: foundationdb };
  return { fdbserver: foundationdb.control, fdbCluster: undefined };
}

function chosen(targets: Planning["targets"], kinds: readonly FaultKind[] | null): Planning["targets"] {
  if (kinds === null) return targets;
  return Object.fromEntries(kinds.map((kind) => [kind, targets[kind] ?? []]));
}

/** Undoes the faults, waits until the fleet is idle, resolves open commands, and stops all processes but the bus. */
async function finish(fleet: FaultFleet, folders: RoundFolders, idleMs: number): Promise<Repair> {
  await undoFaults(fleet, folders);
  const violations: Violation[] = [];
  const failed = (process: string, text: string, details: object): void => {
    violations.push({ kind: "process_failed", task: null, text, details: { process, ...details } });
  };
  await fleet.httpCaller?.stop();
  for (const one of fleet.agents) {
    const ending = await one.stop({ message: { stop: true } });
    if (ending !== null) failed(one.name, "a process of agents did not stop cleanly", ending);
  }
  fleet.dispatcher.send({ closing: true } satisfies DispatcherMessage);
  const recovered = await recover({ fleet, folders, idleMs }, async () => {
    for (const one of [...fleet.takers, ...fleet.workers, fleet.dispatcher]) {
      const ending = await one.stop({ message: { stop: true } });
      if (ending !== null) failed(one.name, "a process of takers or workers did not stop cleanly", ending);
    }
  });
  for (const one of fleet.services) {
    const ending = await one.stop("SIGTERM");
    if (ending !== null) failed(one.name, "a service did not stop cleanly", ending);
  }
  for (const one of [
    ...fleet.services,
    ...fleet.agents,
    ...fleet.takers,
    ...fleet.workers,
    fleet.dispatcher,
  ]) {
    for (const ending of one.endings) {
      if (ending.wasReady) failed(one.name, "a running process ended by itself", { ...ending });
    }
  }
  return { ...recovered, violations: [...recovered.violations, ...violations] };
}

function countCalls(attempts: readonly CallAttempt[]): Pick<RoundResult, "operations" | "copies"> {
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

function countQueue(attempts: readonly CallAttempt[], dead: number): RoundResult["queue"] {
  const answered = (answer: string): number =>
    new Set(attempts.flatMap(({ outcome, command_id }) => (outcome === answer ? [command_id] : []))).size;
  return { queued: answered("queued"), spooled: answered("spooled"), dead };
}

function countKillPoints(kills: readonly KillAtPoint[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { point } of kills) counts[point] = (counts[point] ?? 0) + 1;
  return counts;
}

function restartsOf({
  services,
  agents,
  takers,
  workers,
  dispatcher,
  bus,
}: FaultFleet): RoundResult["restarts"] {
  const processes = [...services, ...agents, ...takers, ...workers, dispatcher];
  const starts = processes.reduce((sum, one) => sum + one.starts - 1, bus.restarts.starts);
  const own = processes.reduce((sum, one) => sum + one.endings.length, bus.restarts.own);
  const replaced = processes.reduce((sum, one) => sum + one.replacements, 0);
  return { after_kill: Math.max(0, starts - own - replaced), own };
}

/** Keeps the evidence after a violation or on request, and removes it otherwise; returns its folder. */
async function keepEvidence(
  o: RoundOptions,
  fleet: FaultFleet,
  folders: RoundFolders,
  violations: readonly Violation[],
): Promise<string | null> {
  const isFine = violations.length === 0;
  if (!isFine) await dumpBus(fleet.bus, folders.root);
  await fleet.bus.stop();
  if (isFine && !o.keepEvidence) {
    folders.remove();
    return null;
  }
  writeFileSync(join(folders.root, "heartbeats.json"), JSON.stringify(fleet.heartbeatRecorder.heartbeats));
  writeFileSync(join(folders.root, "violations.json"), `${JSON.stringify(violations, null, 2)}\n`);
  folders.keep();
  return folders.root;
}
