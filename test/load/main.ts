// `npm run bench`: measures the fleet on this machine, and in the same run the parts that it is built on.

import { writeFileSync } from "node:fs";
import { measureAccess } from "./groups/access.ts";
import { measureBurst } from "./groups/burst.ts";
import { measureContinuity } from "./groups/continuity.ts";
import { measureDegraded } from "./groups/degraded.ts";
import { measureFoundationdb } from "./groups/foundationdb.ts";
import { measureGateway } from "./groups/gateway.ts";
import { measureHandoff } from "./groups/handoff.ts";
import { measureHooks } from "./groups/hooks.ts";
import { measureMirror } from "./groups/mirror.ts";
import { measureMission } from "./groups/mission.ts";
import { measureOverhead } from "./groups/overhead.ts";
import { measurePrompts } from "./groups/prompts.ts";
import { measureRaw } from "./groups/raw.ts";
import { measureReads } from "./groups/reads.ts";
import { measureRecovery } from "./groups/recovery.ts";
import { measureRetention } from "./groups/retention.ts";
import { measureSustained } from "./groups/sustained.ts";
import { measureWrite } from "./groups/write.ts";
import { measureInTurn } from "./measure/group-runs.ts";
import { BUSY_PERCENT_MAX, describeMachine, inspectMachine } from "./measure/machine.ts";
import { formatTable } from "./measure/table.ts";
import { judgedQuickly } from "./measure/targets.ts";
import { GROUPS, type GroupName, HELP, type Options, readOptions } from "./options.ts";
import { Session } from "./session.ts";

const EXIT = { met: 0, missed: 1, failed: 2, interrupted: 130 } as const;

const measure = {
  raw: measureRaw,
  write: measureWrite,
  burst: measureBurst,
  sustained: measureSustained,
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
  foundationdb: measureFoundationdb,
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
const ALONE: ReadonlySet<GroupName> = new Set(["mirror", "retention", "access", "degraded", "reads"]);

async function run(session: Session): Promise<number> {
  const { only, json, quick } = session.options;
  const machine = await inspectMachine();
  session.log(describeMachine(machine));
  const isBusy = machine.busy_percent > BUSY_PERCENT_MAX;
  const warning = "WARNING: another program uses this machine; the fleet is faster than these figures show.";
  if (isBusy) session.log(warning);
  const { groups: measured, failures } = await measureInTurn(GROUPS, {
    async measure(name) {
      if (ALONE.has(name)) await session.stopWriters();
      return only.has(name) ? measure[name](session) : null;
    },
    stopAll: () => session.stopAll(),
    isInterrupted: () => session.isClosing,
    log: (text) => session.log(text),
  });
  const groups = quick
    ? measured.map((group) => ({ ...group, rows: group.rows.map(judgedQuickly) }))
    : measured;
  process.stdout.write(
    `${describeMachine(machine)}\n${isBusy ? `${warning}\n` : ""}\n${formatTable(groups)}\n`,
  );
  if (json !== null) writeFileSync(json, `${JSON.stringify({ machine, groups, failures }, null, 2)}\n`);
  const missed = groups.flatMap(({ rows }) => rows).filter(({ met }) => met === "required missed");
  for (const { what } of missed) session.log(`required, but missed: ${what}`);
  for (const { group, reason } of failures) process.stdout.write(`\nFAILED: ${group}: ${reason}\n`);
  if (failures.length > 0) return EXIT.failed;
  return missed.length === 0 ? EXIT.met : EXIT.missed;
}

const session = new Session(options());
let code: number | undefined;
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    code = EXIT.interrupted;
    void session.close().then(() => process.exit(EXIT.interrupted));
  });
}
const result = await run(session).catch((error: unknown) => {
  // An end by Ctrl-C is no failure.
  if (code === undefined) console.error("the benchmark failed:", error);
  return EXIT.failed;
});
await session.close();
process.exit(code ?? result);
