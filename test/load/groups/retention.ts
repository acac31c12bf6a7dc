// The cost of retention: a fleet whose sweep removes old checkpoints all the time, and one that keeps everything, take the same load in turn.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Program } from "../jobs.ts";
import type { Summary } from "../measure/percentiles.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { AgentsJobs } from "../programs/agents.ts";
import { AGENTS, type Session } from "../session.ts";

const ROUNDS = 4;
/** Few enough that each task has old ones after its first seconds. */
const POLICY = { defaults: { retention: { max: 10, keep: 5 } } };

interface Side {
  readonly home: string;
  readonly agents: Program<AgentsJobs>;
  readonly perSecond: number[];
  readonly latencies: Summary[];
  failed: number;
  stop(): Promise<void>;
}

export async function measureRetention(session: Session): Promise<Group> {
  session.log("retention: starting fleets with and without a sweep");
  const on = await started(session, { FLEET_RETENTION_EVERY: "1s" });
  const off = await started(session, { FLEET_RETENTION_EVERY: "off" });
  const before = removedIn(on.home);
  for (let round = 1; round <= ROUNDS; round += 1) {
    session.log(`retention: round ${round} of ${ROUNDS}`);
    // In turn forwards and backwards, so that a slow drift of the machine cancels out.
    for (const side of round % 2 === 0 ? [off, on] : [on, off]) await measure(session, side);
  }
  for (const side of [on, off]) await side.stop();
  const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
  const p99 = ({ latencies }: Side) => mean(latencies.map((one) => one.p99));
  return {
    name: "retention",
    about: `the sweep of retention, ${AGENTS} writes in flight, 4 KB; mean of ${ROUNDS} rounds in turn with a fleet that removes nothing`,
    rows: [
      row("commits with the sweep", mean(on.perSecond), "/s"),
      row("commits without", mean(off.perSecond), "/s"),
      row("loss through the sweep", 100 * (1 - mean(on.perSecond) / mean(off.perSecond)), "%"),
      row("write with the sweep, p99", p99(on), "ms"),
      row("write without, p99", p99(off), "ms"),
      row("checkpoints that the sweep removed", removedIn(on.home) - before, "checkpoints"),
      row("failed", on.failed + off.failed, "requests", TARGETS.failed),
    ],
  };
}

async function started(session: Session, settings: Readonly<Record<string, string>>): Promise<Side> {
  const home = session.folder();
  const policy = join(home, "bench-policy.json");
  writeFileSync(policy, JSON.stringify(POLICY));
  const fleet = await session.fleet(home, { FLEET_POLICY: policy, ...settings });
  const agents = session.program<AgentsJobs>("agents");
  await agents.run("connect", { url: fleet.busUrl, agents: AGENTS });
  await agents.run("sustained", { warmUpSeconds: 0, seconds: Math.max(8, session.seconds(10)) });
  await agents.run("settle", {});
  const stop = async () => {
    await agents.stop();
    await fleet.stop();
  };
  return { home, agents, perSecond: [], latencies: [], failed: 0, stop };
}

async function measure(session: Session, side: Side): Promise<void> {
  const run = await side.agents.run("sustained", {
    warmUpSeconds: 1,
    seconds: Math.max(5, session.seconds(10)),
  });
  await side.agents.run("settle", {});
  side.perSecond.push(run.perSecond);
  side.latencies.push(run.latency);
  side.failed += run.failed;
}

/** By the lines of the complete passes in the fleet's log. */
function removedIn(home: string): number {
  const lines = readFileSync(join(home, "fleet.log"), "utf8").matchAll(/"removed":(\d+),"freed_bytes"/g);
  return [...lines].reduce((sum, [, removed]) => sum + Number(removed), 0);
}
