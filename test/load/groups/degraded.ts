// While the store is away: how soon commands are taken into the queue, how many, and how fast they are applied when it is back.

import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { AgentsJobs } from "../programs/agents.ts";
import type { DegradedFleetJobs } from "../programs/degraded-fleet.ts";
import type { Session } from "../session.ts";

const PACED_AGENTS = 200;
const IN_FLIGHT = 300;

export async function measureDegraded(session: Session): Promise<Group> {
  session.say("degraded: starting a writer and warming it up");
  const server = await session.nats();
  const fleet = session.program<DegradedFleetJobs>("./degraded-fleet.ts");
  const { url, storeBytesMax } = server;
  await fleet.run("start", { url, storeBytesMax, folder: session.folder() });
  const paced = session.program<AgentsJobs>("./agents.ts");
  const many = session.program<AgentsJobs>("./agents.ts");
  await paced.run("connect", { url, agents: PACED_AGENTS });
  await many.run("connect", { url, agents: IN_FLIGHT });
  await many.run("sustained", { warmUpSeconds: 0, seconds: Math.max(3, session.seconds(5)) });

  session.say("degraded: the store is away");
  await fleet.run("leave", { how: "hangs" });
  // Those who find it out wait longer than those who come after them.
  await paced.run("steady", { seconds: 3, getsPerSecond: 0 });
  const steady = await paced.run("steady", { seconds: Math.ceil(session.seconds(10)), getsPerSecond: 0 });
  const flat = await many.run("sustained", { warmUpSeconds: 1, seconds: Math.max(3, session.seconds(8)) });

  session.say("degraded: the store is back");
  const drained = await fleet.run("comeBack", {});
  for (const program of [paced, many, fleet]) await program.stop();
  await server.stop();
  return {
    name: "degraded",
    about: "the store does not answer; commands are taken into the queue and applied when it is back",
    rows: [
      row(`queued, ${PACED_AGENTS} agents at 1/s, p50`, steady.write.p50, "ms"),
      row(`queued, ${PACED_AGENTS} agents at 1/s, p99`, steady.write.p99, "ms", TARGETS.queued),
      row(`queued, ${PACED_AGENTS} agents at 1/s, max`, steady.write.max, "ms"),
      row(`queued, ${IN_FLIGHT} in flight`, flat.perSecond, "/s"),
      row(`queued, ${IN_FLIGHT} in flight, p99`, flat.latency.p99, "ms"),
      row("failed", steady.failed + flat.failed, "requests", TARGETS.failed),
      row("commands that waited when the store came back", drained.queued, "commands"),
      row("drained", (drained.queued * 1_000) / drained.ms, "/s"),
    ],
  };
}
