// The load that the fleet is designed for: agents, each of which writes a checkpoint every second.

import { formatNumber, type Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { NeighbourJobs } from "../programs/neighbour.ts";
import type { Session } from "../session.ts";

const GETS_PER_SECOND = 100;

export async function measureWrite(session: Session): Promise<Group> {
  const { agents } = await session.writers();
  const count = session.pacedAgents;
  const steady = (seconds: number, getsPerSecond: number) =>
    agents.run("steady", { seconds: Math.ceil(seconds), getsPerSecond, agents: count });
  session.log(`write: ${count} agents at 1 checkpoint a second`);
  await steady(2, 0);
  const alone = await steady(session.seconds(15), 0);
  session.log("write: the same with reads");
  const withReads = await steady(session.seconds(15), GETS_PER_SECOND);
  await agents.run("settle", {});
  session.log("write: the same beside a busy neighbour");
  const neighbour = session.program<NeighbourJobs>("neighbour");
  const seconds = session.seconds(15);
  // It is busy before the first write and after the last one.
  const busy = neighbour.run("keepBusy", { seconds: seconds + 4 });
  await steady(2, 0);
  const beside = await steady(seconds, 0);
  await busy;
  await neighbour.stop();
  await agents.run("settle", {});
  const { raw } = session;
  const rawMs = raw && raw.commitMs + raw.writeRequestMs;
  return {
    name: "write",
    about: `${formatNumber(count)} agents at 1 checkpoint of 4 KB a second each, at set times; the latency counts from the set time`,
    rows: [
      row("write, p50", alone.write.p50, "ms"),
      row("write, p99", alone.write.p99, "ms", TARGETS.paced_write),
      row("write, max", alone.write.max, "ms"),
      row("included: delay of the clients' timers, p50", alone.lateness.p50, "ms"),
      row("included: delay of the clients' timers, p99", alone.lateness.p99, "ms"),
      row("writes", alone.write.count, "requests"),
      row("write beside a busy neighbour, p50", beside.write.p50, "ms"),
      row("write beside a busy neighbour, p99", beside.write.p99, "ms", TARGETS.busy_write),
      row("write beside a busy neighbour, max", beside.write.max, "ms"),
      row(
        "failed, writes and gets",
        alone.failed + withReads.failed + beside.failed,
        "requests",
        TARGETS.failed,
      ),
      row("processor time of the clients", alone.clientPercent, "% of a core"),
      ...(rawMs === null ? [] : [row("write p50 to raw commit + raw request", alone.write.p50 / rawMs, "×")]),
      row(`get under this load, ${GETS_PER_SECOND}/s, p50`, withReads.get!.p50, "ms"),
      row(`get under this load, ${GETS_PER_SECOND}/s, p99`, withReads.get!.p99, "ms"),
      row(`get under this load, ${GETS_PER_SECOND}/s, max`, withReads.get!.max, "ms"),
    ],
  };
}
