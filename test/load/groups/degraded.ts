// An outage of the store: how fast commands enter the queue, how many, and how fast they are applied after the outage.

import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { AgentsJobs } from "../programs/agents.ts";
import type { DegradedFleetJobs } from "../programs/degraded-fleet.ts";
import type { Session } from "../session.ts";

const PACED_AGENTS = 200;
const IN_FLIGHT = 300;

export async function measureDegraded(session: Session): Promise<Group> {
  session.log("degraded: starting a writer and warming it up");
  const server = await session.nats();
  const fleet = session.program<DegradedFleetJobs>("degraded-fleet");
  const { url, storeBytesMax } = server;
  const store = await session.emptyStore(session.folder());
  await fleet.run("start", { url, storeBytesMax, storeUrl: store.url });
  const paced = session.program<AgentsJobs>("agents");
  const many = session.program<AgentsJobs>("agents");
  await paced.run("connect", { url, agents: PACED_AGENTS });
  await many.run("connect", { url, agents: IN_FLIGHT });
  await many.run("sustained", { warmUpSeconds: 0, seconds: Math.max(3, session.seconds(5)) });

  session.log("degraded: an outage begins");
  await fleet.run("beginOutage", { kind: "hangs" });
  // The commands that discover the outage wait longer than later ones.
  await paced.run("steady", { seconds: 3, getsPerSecond: 0 });
  const steady = await paced.run("steady", { seconds: Math.ceil(session.seconds(10)), getsPerSecond: 0 });
  const saturated = await many.run("sustained", {
    warmUpSeconds: 1,
    seconds: Math.max(3, session.seconds(8)),
  });

  session.log("degraded: the outage ends");
  const drained = await fleet.run("endOutage", {});
  for (const program of [paced, many, fleet]) await program.stop();
  await store.stop();
  await server.stop();
  return {
    name: "degraded",
    about: "the store does not answer; commands enter the queue and are applied after the outage",
    rows: [
      row(`queued, ${PACED_AGENTS} agents at 1/s, p50`, steady.write.p50, "ms"),
      row(`queued, ${PACED_AGENTS} agents at 1/s, p99`, steady.write.p99, "ms", TARGETS.queued),
      row(`queued, ${PACED_AGENTS} agents at 1/s, max`, steady.write.max, "ms"),
      row(`queued, ${IN_FLIGHT} in flight`, saturated.perSecond, "/s"),
      row(`queued, ${IN_FLIGHT} in flight, p99`, saturated.latency.p99, "ms"),
      row("failed", steady.failed + saturated.failed, "requests", TARGETS.failed),
      row("queued commands at the end of the outage", drained.queued, "commands"),
      row("drained", (drained.queued * 1_000) / drained.ms, "/s", TARGETS.drained),
    ],
  };
}
