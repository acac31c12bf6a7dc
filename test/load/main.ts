// `npm run bench`: measures the fleet on this machine, and in the same run the parts that it is built on.

import { writeFileSync } from "node:fs";
import { isClusterGiven, missingFoundationdb } from "../harness/stores/foundationdb.ts";
import { measureAccess } from "./groups/access.ts";
import { measureBurst } from "./groups/burst.ts";
import { measureContinuity } from "./groups/continuity.ts";
import { measureDegraded } from "./groups/degraded.ts";
import { measureGateway } from "./groups/gateway.ts";
import { measureHandoff } from "./groups/handoff.ts";
import { measureHooks } from "./groups/hooks.ts";
import { measureIdle } from "./groups/idle.ts";
import { measureMirror } from "./groups/mirror.ts";
import { measureMission } from "./groups/mission.ts";
import { measureOverhead } from "./groups/overhead.ts";
import { measurePeers } from "./groups/peers.ts";
import { measurePrompts } from "./groups/prompts.ts";
import { measureRaw } from "./groups/raw.ts";
import { measureReads } from "./groups/reads.ts";
import { measureRecovery } from "./groups/recovery.ts";
import { measureRetention } from "./groups/retention.ts";
import { measureSustained } from "./groups/sustained.ts";
import { measureWrite } from "./groups/write.ts";
import { type GroupFailure, measureInTurn } from "./measure/group-runs.ts";
import { BUSY_PERCENT_MAX, describeMachine, inspectMachine } from "./measure/machine.ts";
import { originOf, type StoredRun } from "./measure/stored-run.ts";
import { formatTable, type Group, type MeasuredGroup } from "./measure/table.ts";
import { judgedOnFoundationdb, judgedQuickly } from "./measure/targets.ts";
import { GROUPS, type GroupName, HELP, type Options, readOptions, type StoreName } from "./options.ts";
import { Session } from "./session.ts";

const EXIT = { met: 0, missed: 1, failed: 2, interrupted: 130 } as const;

const measure = {
  raw: measureRaw,
  write: measureWrite,
  burst: measureBurst,
  sustained: measureSustained,
  peers: measurePeers,
  mirror: measureMirror,
  retention: measureRetention,
  access: measureAccess,
  degraded: measureDegraded,
  handoff: measureHandoff,
  recovery: measureRecovery,
  overhead: measureOverhead,
  reads: measureReads,
  prompts: measurePrompts,
  continuity: measureContinuity,
  hooks: measureHooks,
  gateway: measureGateway,
  mission: measureMission,
  idle: measureIdle,
} as const;

function options(): Options {
  try {
    const read = readOptions(process.argv.slice(2));
    if (read !== null) return read;
    process.stdout.write(HELP);
    process.exit(EXIT.met);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${HELP}`);
    process.exit(EXIT.failed);
  }
}

/** These groups and all later ones are measured while nothing else runs. */
const ALONE: ReadonlySet<GroupName> = new Set([
  "peers",
  "mirror",
  "retention",
  "access",
  "degraded",
  "reads",
  "idle",
]);
/** These groups are measured on the first store only, because the store makes no difference to them. */
const ON_ONE_STORE: ReadonlySet<GroupName> = new Set(["prompts", "hooks"]);
/** These groups compare fleets that run at the same time, each on a database of its own. */
const SEVERAL_FLEETS: ReadonlySet<GroupName> = new Set(["mirror", "retention", "access"]);
const STORE_NAMES: Readonly<Record<StoreName, string>> = { lmdb: "LMDB", foundationdb: "FoundationDB" };

interface Measured {
  readonly groups: readonly MeasuredGroup[];
  readonly failures: readonly GroupFailure[];
}

const log = (text: string): void => void process.stderr.write(`${text}\n`);
let session: Session | undefined;
let code: number | undefined;

/** The chosen stores that can run here; the reason why one cannot is logged. */
async function possibleStores({ stores }: Options): Promise<readonly StoreName[]> {
  if (!stores.includes("foundationdb")) return stores;
  const missing = await missingFoundationdb();
  if (missing === undefined) return stores;
  if (stores.length === 1) throw new Error(`FoundationDB cannot run here: ${missing}`);
  log(`FoundationDB is skipped: ${missing}`);
  return stores.filter((store) => store !== "foundationdb");
}

async function measureOn(store: StoreName, isFirst: boolean, o: Options): Promise<Measured> {
  const own = new Session(o, store);
  session = own;
  const oneDatabase = store === "foundationdb" && isClusterGiven();
  const isMeasured = (name: GroupName): boolean => o.only.has(name) && (isFirst || !ON_ONE_STORE.has(name));
  const { groups, failures } = await measureInTurn(GROUPS, {
    async measure(name) {
      if (ALONE.has(name)) await own.stopWriters();
      if (!isMeasured(name)) return null;
      if (!oneDatabase || !SEVERAL_FLEETS.has(name)) return measure[name](own);
      log(`${name}: skipped, it needs several databases at once`);
      return null;
    },
    stopAll: () => own.stopAll(),
    isInterrupted: () => own.isClosing,
    log,
  }).finally(() => own.close());
  const name = STORE_NAMES[store];
  return {
    groups: groups.map((group) => ({ ...group, store: name, rows: judged(group, store, o) })),
    failures: failures.map(({ group, reason }) => ({ group: `${group} on ${name}`, reason })),
  };
}

function judged({ rows }: Group, store: StoreName, { quick }: Options): Group["rows"] {
  const own = store === "foundationdb" ? rows.map(judgedOnFoundationdb) : rows;
  return quick ? own.map(judgedQuickly) : own;
}

async function measureAll(o: Options): Promise<Measured> {
  const all: Measured[] = [];
  for (const [i, store] of (await possibleStores(o)).entries()) {
    if (code !== undefined) break;
    log(`the fleet on ${STORE_NAMES[store]}`);
    all.push(await measureOn(store, i === 0, o));
  }
  const groups = all.flatMap((one) => one.groups);
  // The stores beside each other.
  const sorted = GROUPS.flatMap((name) => groups.filter((group) => group.name === name));
  return { groups: sorted, failures: all.flatMap((one) => one.failures) };
}

async function run(o: Options): Promise<number> {
  // Before the run, in which a developer may commit.
  const origin = originOf(o, new Date());
  const machine = await inspectMachine();
  log(describeMachine(machine));
  const isBusy = machine.busy_percent > BUSY_PERCENT_MAX;
  const warning = "WARNING: another program uses this machine; the fleet is faster than these figures show.";
  if (isBusy) log(warning);
  const { groups, failures } = await measureAll(o);
  process.stdout.write(
    `${describeMachine(machine)}\n${isBusy ? `${warning}\n` : ""}\n${formatTable(groups)}\n`,
  );
  const stored: StoredRun = { run: origin, machine, groups, failures };
  if (o.json !== null) writeFileSync(o.json, `${JSON.stringify(stored, null, 2)}\n`);
  const missed = groups.flatMap(({ store, rows }) =>
    rows.flatMap(({ met, what }) => (met === "required missed" ? [`${what}, on ${store}`] : [])),
  );
  for (const what of missed) log(`required, but missed: ${what}`);
  for (const { group, reason } of failures) process.stdout.write(`\nFAILED: ${group}: ${reason}\n`);
  if (failures.length > 0) return EXIT.failed;
  return missed.length === 0 ? EXIT.met : EXIT.missed;
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    code = EXIT.interrupted;
    void Promise.resolve(session?.close()).then(() => process.exit(EXIT.interrupted));
  });
}
const result = await run(options()).catch((error: unknown) => {
  // An end by Ctrl-C is no failure.
  if (code === undefined) console.error("the benchmark failed:", error);
  return EXIT.failed;
});
process.exit(code ?? result);
