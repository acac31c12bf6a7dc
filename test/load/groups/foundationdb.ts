// FoundationDB beside LMDB, if a server can run: the engine alone, the records layer on it and a whole fleet on it. The server is
// one node on this machine, so the figures show the cost of our layers, not the performance of a cluster.

import { missingFoundationdb, startFoundationdb } from "../../harness/stores/foundationdb.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { AgentsJobs } from "../programs/agents.ts";
import type { RawFoundationdbJobs } from "../programs/raw-foundationdb.ts";
import { AGENTS, type Session } from "../session.ts";

/** Returns null when no server can run here. */
export async function measureFoundationdb(session: Session): Promise<Group | null> {
  const missing = await missingFoundationdb();
  if (missing !== undefined) {
    session.log(`foundationdb: skipped, ${missing}`);
    return null;
  }
  session.log("foundationdb: commits");
  const { clusterFile } = await session.keep(startFoundationdb());
  const engine = session.program<RawFoundationdbJobs>("raw-foundationdb");
  const { raw, ours } = await engine.run("measure", {
    clusterFile,
    agents: AGENTS,
    rounds: session.options.quick ? 4 : 20,
    seconds: session.seconds(6),
  });
  await engine.stop();

  session.log("foundationdb: a fleet with 1,000 writes in flight");
  const fleet = await session.fleet(session.folder(), `fdb:${clusterFile}`);
  const agents = session.program<AgentsJobs>("agents");
  await agents.run("connect", { url: fleet.busUrl, agents: AGENTS });
  const seconds = session.seconds(10);
  const { perSecond, latency, failed } = await agents.run("sustained", {
    warmUpSeconds: seconds / 2,
    seconds,
  });
  await agents.run("disconnect", {});
  await agents.stop();
  await fleet.stop();

  return {
    name: "foundationdb",
    about: "one FoundationDB node on this machine, with the bytes of one create command",
    rows: [
      row("FoundationDB commits, 1,000 in flight", raw.inFlight.perSecond, "/s"),
      row("FoundationDB commits, 1,000 in flight, p50", raw.inFlight.latency.p50, "ms"),
      row("FoundationDB commits, 1,000 in flight, p99", raw.inFlight.latency.p99, "ms"),
      row("FoundationDB commit alone, p50", raw.alone.latency.p50, "ms"),
      row("FoundationDB commit alone, p99", raw.alone.latency.p99, "ms"),
      row("creates by the records layer, 1,000 in flight", ours.inFlight.perSecond, "/s"),
      row("creates by the records layer, 1,000 in flight, p50", ours.inFlight.latency.p50, "ms"),
      row("creates by the records layer, 1,000 in flight, p99", ours.inFlight.latency.p99, "ms"),
      row("create by the records layer alone, p50", ours.alone.latency.p50, "ms"),
      row("create by the records layer alone, p99", ours.alone.latency.p99, "ms"),
      row("fleet, 1,000 writes in flight", perSecond, "/s"),
      row("fleet, 1,000 writes in flight, p50", latency.p50, "ms"),
      row("fleet, 1,000 writes in flight, p99", latency.p99, "ms"),
      row("failed", failed, "requests", TARGETS.failed),
    ],
  };
}
