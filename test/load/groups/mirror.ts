// The file mirror: how soon a file follows its commit, and what the mirror costs the writes. Two fleets, one without a mirror, take the same
// load in turn.

import type { Program } from "../jobs.ts";
import { type MirrorLag, measureLag, mirroredFiles } from "../measure/mirror-lag.ts";
import type { Summary } from "../measure/percentiles.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { AgentsJobs } from "../programs/agents.ts";
import type { Session } from "../session.ts";

const MODERATE = 200;
const ROUNDS = 4;

interface Side {
  readonly home: string;
  readonly many: Program<AgentsJobs>;
  readonly few: Program<AgentsJobs>;
  readonly writes: Summary[];
  failed: number;
  stop(): Promise<void>;
}

export async function measureMirror(session: Session): Promise<Group> {
  session.log("mirror: starting fleets with and without a mirror");
  const on = await started(session, {});
  const off = await started(session, { FLEET_MIRROR_DIR: "off" });
  session.log(`mirror: ${MODERATE} writes a second`);
  const count = session.pacedAgents;
  const moderate = await lagUnder(session, on, on.few, 15);
  const lags: MirrorLag[] = [];
  for (let round = 1; round <= ROUNDS; round += 1) {
    session.log(`mirror: ${session.pacedAgents} writes a second, round ${round} of ${ROUNDS}`);
    // In turn forwards and backwards, so that a slow drift of the machine cancels out.
    for (const side of round % 2 === 0 ? [off, on] : [on, off]) {
      if (side === on) lags.push(await lagUnder(session, on, on.many, 10));
      else await write(session, off, off.many, 10);
    }
  }
  for (const side of [on, off]) await side.stop();
  const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
  const of = ({ writes }: Side, part: "p50" | "p99") => mean(writes.map((one) => one[part]));
  const lagOf = (part: "p50" | "p95" | "max") => mean(lags.map((one) => one[part]));
  return {
    name: "mirror",
    about: `the file mirror, 4 KB; the lag is from the time in the checkpoint to the time of its file; mean of ${ROUNDS} rounds in turn with a fleet without mirror`,
    rows: [
      row(`file after its commit, ${MODERATE} writes/s, p50`, moderate.p50, "ms"),
      row(`file after its commit, ${MODERATE} writes/s, p95`, moderate.p95, "ms", TARGETS.mirror_lag),
      row(`file after its commit, ${MODERATE} writes/s, max`, moderate.max, "ms"),
      row(`file after its commit, ${count} writes/s, p50`, lagOf("p50"), "ms"),
      row(`file after its commit, ${count} writes/s, p95`, lagOf("p95"), "ms"),
      row(`file after its commit, ${count} writes/s, max`, lagOf("max"), "ms"),
      row(`write, ${count}/s, with the mirror, p50`, of(on, "p50"), "ms"),
      row(`write, ${count}/s, without, p50`, of(off, "p50"), "ms"),
      row(`write, ${count}/s, with the mirror, p99`, of(on, "p99"), "ms", TARGETS.write),
      row(`write, ${count}/s, without, p99`, of(off, "p99"), "ms"),
      row(
        "checkpoints without a file",
        [moderate, ...lags].reduce((sum, { missing }) => sum + missing, 0),
        "files",
        TARGETS.failed,
      ),
      row("failed", on.failed + off.failed, "requests", TARGETS.failed),
    ],
  };
}

async function started(session: Session, settings: Readonly<Record<string, string>>): Promise<Side> {
  const home = session.folder();
  const fleet = await session.fleet(home, settings);
  const many = session.program<AgentsJobs>("agents");
  const few = session.program<AgentsJobs>("agents");
  await many.run("connect", { url: fleet.busUrl, agents: session.pacedAgents });
  await few.run("connect", { url: fleet.busUrl, agents: MODERATE });
  const warmUp = await many.run("sustained", { warmUpSeconds: 0, seconds: Math.max(3, session.seconds(6)) });
  await many.run("settle", {});
  // The mirror must not have anything left to copy when the measurement begins.
  if (settings.FLEET_MIRROR_DIR !== "off") await measureLag(home, new Set(), warmUp.committed);
  const stop = async () => {
    for (const program of [many, few]) await program.stop();
    await fleet.stop();
  };
  return { home, many, few, writes: [], failed: 0, stop };
}

/** Returns the number of committed checkpoints. */
async function write(session: Session, side: Side, agents: Program<AgentsJobs>, seconds: number) {
  const run = await agents.run("steady", { seconds: Math.ceil(session.seconds(seconds)), getsPerSecond: 0 });
  await agents.run("settle", {});
  if (agents === side.many) side.writes.push(run.write);
  side.failed += run.failed;
  return run.write.count - run.failed;
}

async function lagUnder(session: Session, side: Side, agents: Program<AgentsJobs>, seconds: number) {
  const before = new Set(mirroredFiles(side.home));
  return measureLag(side.home, before, await write(session, side, agents, seconds));
}
