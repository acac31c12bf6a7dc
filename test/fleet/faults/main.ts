/** `npm run faults`: runs real fleets under faults and verifies that they kept their guarantees. */
import { rmSync, writeFileSync } from "node:fs";
import {
  missingCluster,
  missingFoundationdb,
  startFoundationdb,
  startFoundationdbCluster,
} from "../../harness/stores/foundationdb.ts";
import { BROKEN, BROKEN_NAMES, type BrokenName, NEEDS_RETENTION } from "./environment/broken-builds.ts";
import type { Shape } from "./environment/programs.ts";
import { missingSmallDisk } from "./environment/round-folders.ts";
import { commandFor, HELP, type Options, type RoundName, readOptions } from "./plan/options.ts";
import type { FaultKind } from "./plan/plan.ts";
import { formatReport } from "./report.ts";
import { type RoundResult, runRound } from "./round.ts";
import { openPreviousTree, type PreviousTree } from "./upgrade/previous-tree.ts";

const EXIT = { kept: 0, violated: 1, failed: 2, interrupted: 130 } as const;

function options(): Options {
  try {
    const read = readOptions(process.argv.slice(2));
    if (read !== null) return read;
    process.stdout.write(HELP);
    process.exit(EXIT.kept);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${HELP}`);
    process.exit(EXIT.failed);
  }
}

/** The faults that reveal every broken build. */
const ENOUGH_TO_DETECT: readonly FaultKind[] = ["kill_service", "pause_agents"];

/** One server or zone at a time has a fault, so the faults have room to end. */
const CLUSTER_EVERY_MS = 2_500;
const CLUSTER_BUS_SERVERS = 3;

const SHAPE_OF: Readonly<Partial<Record<RoundName, Shape>>> = {
  alone: "alone",
  "small-disk": "alone",
  upgrade: "rolling",
};

/** Most faults are of the servers of the bus, so that the availability shows their effect. */
const CLUSTER_FAULTS: readonly FaultKind[] = [
  "kill_bus_leader",
  "pause_bus_leader",
  "kill_bus_server",
  "pause_bus_server",
  "kill_service",
  "pause_service",
  "kill_agents",
  "cut_connections",
];

/** Most faults are of the zones of the store, for the same reason. */
const ZONE_FAULTS: readonly FaultKind[] = [
  "kill_fdb_zone",
  "pause_fdb_zone",
  "kill_service",
  "pause_service",
  "kill_agents",
  "commit_unknown",
];

const log = (text: string): void => void process.stderr.write(`  ${text}\n`);

/** The reason why a round cannot run here, in one line. */
const MISSING: Readonly<Record<RoundName, () => Promise<string | undefined>>> = {
  alone: async () => undefined,
  "small-disk": async () => missingSmallDisk(),
  several: async () => undefined,
  retention: async () => undefined,
  cluster: async () => undefined,
  upgrade: async () => undefined,
  foundationdb: missingFoundationdb,
};

async function possible(
  rounds: readonly RoundName[],
): Promise<{ run: RoundName[]; skipped: Record<string, string> }> {
  const run: RoundName[] = [];
  const skipped: Record<string, string> = {};
  for (const name of rounds) {
    const missing = await MISSING[name]();
    if (missing === undefined) run.push(name);
    else {
      skipped[name] = missing;
      log(`${name} is skipped: ${missing}`);
    }
  }
  return { run, skipped };
}

async function oneRound(
  o: Options,
  broken: BrokenName | null,
  { name, index, rounds }: { readonly name: RoundName; readonly index: number; readonly rounds: number },
): Promise<RoundResult> {
  const foundationdb = name === "foundationdb" ? await startStore() : undefined;
  const isZoned = foundationdb !== undefined && "zones" in foundationdb;
  const kinds = name === "cluster" ? CLUSTER_FAULTS : isZoned ? ZONE_FAULTS : null;
  const previous = name === "upgrade" ? previousTree() : undefined;
  try {
    return await runRound({
      name,
      shape: SHAPE_OF[name] ?? "several",
      oldTree: previous?.folder ?? null,
      smallDisk: name === "small-disk",
      retention: name === "retention" || (broken !== null && NEEDS_RETENTION.has(broken)),
      foundationdb,
      seed: o.seed + 10_000 * index,
      busServers: name === "cluster" ? CLUSTER_BUS_SERVERS : 1,
      everyMs: kinds === null ? undefined : CLUSTER_EVERY_MS,
      durationMs: (o.minutes * 60_000) / rounds,
      broken,
      kinds: o.faults ?? kinds,
      keepEvidence: o.keep,
      log,
      signal: stopping.signal,
    });
  } finally {
    await foundationdb?.stop();
    previous?.remove();
  }
}

function previousTree(): PreviousTree {
  const previous = openPreviousTree();
  process.once("exit", previous.remove);
  if (previous.missing !== undefined)
    log(`upgrade replaces every process by one of the same tree: ${previous.missing}`);
  return previous;
}

/** A cluster with zones where its programs are on PATH, or else one server. */
async function startStore() {
  return (await missingCluster()) === undefined ? startFoundationdbCluster() : startFoundationdb();
}

/** Runs every broken build in the first of the rounds, and reports whether the check for it detected it. */
async function detect(o: Options): Promise<number> {
  const [name] = o.rounds;
  const faults = o.faults ?? ENOUGH_TO_DETECT;
  let undetected = 0;
  for (const broken of BROKEN_NAMES) {
    if (stopping.signal.aborted) return EXIT.interrupted;
    const result = await oneRound({ ...o, faults }, broken, { name: name!, index: 0, rounds: 1 });
    const kinds = new Set(result.violations.map(({ kind }) => kind));
    const isDetected = kinds.has(BROKEN[broken].revealedBy);
    if (!isDetected) undetected += 1;
    if (result.evidence !== null && isDetected && !o.keep) rmSync(result.evidence, { recursive: true });
    const outcome = isDetected ? "detected" : `NOT DETECTED; evidence in ${result.evidence}`;
    process.stdout.write(`${broken.padEnd(20)}${BROKEN[broken].revealedBy.padEnd(22)}${outcome}\n`);
  }
  return undetected === 0 ? EXIT.kept : EXIT.violated;
}

async function run(o: Options): Promise<number> {
  const { broken } = o;
  if (broken === "all") return detect(o);
  const { run: rounds, skipped } = await possible(o.rounds);
  log(`seed ${o.seed}; rounds: ${rounds.join(", ") || "none"}`);
  const results: RoundResult[] = [];
  for (const [index, name] of rounds.entries()) {
    if (stopping.signal.aborted) break;
    results.push(await oneRound(o, broken, { name, index, rounds: rounds.length }));
  }
  process.stdout.write(`${formatReport(results)}\n`);
  const violations = results.reduce((sum, { violations: found }) => sum + found.length, 0);
  const command = commandFor({ ...o, rounds });
  if (o.json !== null) {
    const { seed, minutes } = o;
    writeFileSync(
      o.json,
      `${JSON.stringify({ seed, minutes, broken, command, skipped, violations, rounds: results }, null, 2)}\n`,
    );
  }
  if (violations > 0) {
    process.stdout.write(`\n${violations} violations. Repeat this plan with: ${command}\n`);
    return EXIT.violated;
  }
  process.stdout.write(
    `\nNo violation. Not tested: a power cut, a disk that loses synced writes, several machines.\n`,
  );
  return stopping.signal.aborted ? EXIT.interrupted : EXIT.kept;
}

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    // The second signal ends the run at once; its processes are killed on exit.
    if (stopping.signal.aborted) process.exit(EXIT.interrupted);
    log("interrupted: the faults end now; interrupt again to exit at once");
    stopping.abort();
  });
}
process.exit(
  await run(options()).catch((error: unknown) => {
    console.error("the run failed:", error);
    return EXIT.failed;
  }),
);
