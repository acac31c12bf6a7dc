// Agents that fail: from the end of their silence timeout to the checkpoint of the next agent. And the cost of the heartbeats of
// ten thousand agents for a watchdog.

import { environmentOf, startService } from "../../harness/processes/services.ts";
import { processorTime } from "../measure/cpu-time.ts";
import type { Group } from "../measure/table.ts";
import { type Row, row, TARGETS } from "../measure/targets.ts";
import type { FailingAgentsJobs, Recoveries } from "../programs/failing-agents.ts";
import type { Session } from "../session.ts";

const FAILURES = 100;
const AGENTS = 10_000;
const US_PER_SECOND = 1_000_000;

export async function measureRecovery(session: Session): Promise<Group> {
  const recoveries = await measureFailures(session);
  return {
    name: "recovery",
    about: `${FAILURES} agents fall silent at the same instant; times from the end of their silence timeout`,
    rows: [...rowsOf(recoveries), ...(await measureHeartbeats(session))],
  };
}

async function measureFailures(session: Session): Promise<Recoveries> {
  session.log("recovery: starting a fleet and warming it up");
  const fleet = await session.fleet(session.folder());
  const agents = session.program<FailingAgentsJobs>("failing-agents");
  await agents.run("connectAll", { url: fleet.busUrl, accepts: true });
  const fail = async (name: string): Promise<Recoveries> => {
    await agents.run("takeTasks", { name, count: FAILURES, writes: true });
    return agents.run("failAll", { name, count: FAILURES });
  };
  await fail("warm-up");
  session.log(`recovery: ${FAILURES} agents fail together`);
  const measured = await fail("failing");
  await agents.run("disconnect", {});
  await agents.stop();
  await fleet.stop();
  return measured;
}

function rowsOf({ noted, offered, resumed, failed }: Recoveries): Row[] {
  return [
    row("silence timeout to recorded failure, p50", noted.p50, "ms"),
    row("silence timeout to recorded failure, max", noted.max, "ms"),
    row("silence timeout to offer, p50", offered.p50, "ms"),
    row("silence timeout to offer, p99", offered.p99, "ms", TARGETS.detection),
    row("silence timeout to offer, max", offered.max, "ms"),
    row("silence timeout to the next agent's checkpoint, p50", resumed.p50, "ms"),
    row("silence timeout to the next agent's checkpoint, max", resumed.max, "ms"),
    row("not recovered", failed, "tasks", TARGETS.failed),
  ];
}

/** Measures a watchdog in a separate process, with a bus and a writer beside it. */
async function measureHeartbeats(session: Session): Promise<Row[]> {
  session.log(`recovery: ${AGENTS} agents take a task each`);
  const nats = await session.nats();
  const store = await session.emptyStore(session.folder());
  const env = environmentOf({ busUrl: nats.url, storeUrl: store.sharedUrl });
  const services = await Promise.all(
    (["writer", "watchdog"] as const).map((role) => startService(role, env)),
  );
  const [, watchdog] = services;
  const stop = async () => void (await Promise.all(services.map((service) => service.kill9())));
  await session.keep(Promise.resolve({ stop }));
  const agents = session.program<FailingAgentsJobs>("failing-agents");
  await agents.run("connectAll", { url: nats.url, accepts: false });
  await agents.run("takeTasks", { name: "healthy", count: AGENTS, writes: false });
  session.log("recovery: the agents send heartbeats");
  await agents.run("sendHeartbeats", { name: "healthy", count: AGENTS, seconds: session.seconds(24) });
  const used = processorTime(watchdog?.pid ?? null);
  const seconds = session.seconds(40);
  const heartbeats = await agents.run("sendHeartbeats", { name: "healthy", count: AGENTS, seconds });
  const us = used();
  const percent = us === null ? null : (100 * us) / (seconds * US_PER_SECOND);
  await agents.run("disconnect", {});
  await agents.stop();
  // The later groups are measured while nothing else runs.
  await stop();
  await store.stop();
  await nats.stop();
  return [
    row(`heartbeats of ${AGENTS.toLocaleString("en-US")} agents`, heartbeats / seconds, "/s"),
    row("processor time of a watchdog for them", percent, "% of a core", TARGETS.heartbeats),
  ];
}
