// The highest rate: 1,000 writes in flight, while the relay and the indexer run as usual.

import { accountRows, beginAccount } from "../account/account.ts";
import { processorTime } from "../measure/cpu-time.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { Session } from "../session.ts";

export async function measureSustained(session: Session): Promise<Group> {
  const { agents, fleet } = await session.writers();
  session.log("sustained: 1,000 in flight");
  const pids = { fleet: fleet.pid, natsServer: fleet.natsServerPid, clients: agents.pid };
  const account = session.options.account ? beginAccount(pids) : null;
  const used = { fleet: processorTime(fleet.pid), natsServer: processorTime(fleet.natsServerPid) };
  const { perSecond, latency, failed, clientPercent, committed } = await agents.run("sustained", {
    warmUpSeconds: session.seconds(4),
    seconds: session.seconds(15),
  });
  session.log("sustained: waiting for the relay and the indexer");
  const { published, indexed } = await agents.run("settle", {});
  // Measured up to here, because publishing and indexing are part of the cost of a commit.
  const perCommit = (us: number | null) => (us === null ? null : us / committed);
  const [fleetUs, natsServerUs] = [perCommit(used.fleet()), perCommit(used.natsServer())];
  const accounted = account?.();
  // The threads write their profiles when they end.
  if (accounted !== undefined) await session.stopWriters();
  const raw = session.raw?.commitsPerSecond ?? null;
  return {
    name: "sustained",
    about: "1,000 writes in flight, 4 KB",
    rows: [
      row("commits", perSecond, "/s", raw === null ? TARGETS.commits : undefined),
      ...(raw === null
        ? []
        : [row("commits to raw commits", (100 * perSecond) / raw, "%", TARGETS.raw_share)]),
      row("latency, p50", latency.p50, "ms"),
      row("latency, p99", latency.p99, "ms"),
      row("latency, max", latency.max, "ms"),
      row("failed", failed, "requests", TARGETS.failed),
      row("processor time of the clients", clientPercent, "% of a core"),
      row("processor time of the fleet, until all is published and indexed", fleetUs, "µs/commit"),
      row("processor time of nats-server, for the same time", natsServerUs, "µs/commit"),
      row("afterwards: until every event is published", published, "ms"),
      row("afterwards: until every checkpoint is indexed", indexed, "ms"),
      ...(accounted === undefined
        ? []
        : accountRows(accounted, session.profileFolder!, fleet.pid, committed)),
    ],
  };
}
