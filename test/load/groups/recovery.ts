// Agents that die: from the moment at which the last sign of life is too old to the checkpoint of the next agent; and what it costs a
// watchdog to hear ten thousand of them.

import { environmentOf, startService } from "../../harness/processes/services.ts";
import { processorTime } from "../measure/cpu-time.ts";
import type { Group } from "../measure/table.ts";
import { type Row, row, TARGETS } from "../measure/targets.ts";
import type { FailingAgentsJobs, Recoveries } from "../programs/failing-agents.ts";
import type { Session } from "../session.ts";

const AT_ONCE = 100;
const AGENTS = 10_000;
const US_PER_SECOND = 1_000_000;

export async function measureRecovery(session: Session): Promise<Group> {
  const one = await measureDeaths(session);
  return {
    name: "recovery",
    about: `${AT_ONCE} agents fall silent at the same instant; times from when their silence is too long`,
    rows: [...rowsOf(one), ...(await measureHearing(session))],
  };
}

async function measureDeaths(session: Session): Promise<Recoveries> {
  session.say("recovery: starting a fleet and warming it up");
  const fleet = await session.fleet(session.folder());
  const agents = session.program<FailingAgentsJobs>("./failing-agents.ts");
  await agents.run("connectAll", { url: fleet.busUrl, takes: true });
  const die = async (name: string): Promise<Recoveries> => {
    await agents.run("own", { name, count: AT_ONCE, writes: true });
    return agents.run("die", { name, count: AT_ONCE });
  };
  await die("warm-up");
  session.say(`recovery: ${AT_ONCE} agents die at once`);
  const measured = await die("dying");
  await agents.run("disconnect", {});
  await agents.stop();
  await fleet.stop();
  return measured;
}

function rowsOf({ noted, offered, resumed, failed }: Recoveries): Row[] {
  return [
    row("too long silent to noted and deposed, p50", noted.p50, "ms"),
    row("too long silent to noted and deposed, max", noted.max, "ms"),
    row("too long silent to offered, p50", offered.p50, "ms"),
    row("too long silent to offered, p99", offered.p99, "ms", TARGETS.detection),
    row("too long silent to offered, max", offered.max, "ms"),
    row("too long silent to the next agent's checkpoint, p50", resumed.p50, "ms"),
    row("too long silent to the next agent's checkpoint, max", resumed.max, "ms"),
    row("not recovered", failed, "tasks", TARGETS.failed),
  ];
}

/** A watchdog in a process of its own, with the bus and the writer beside it. */
async function measureHearing(session: Session): Promise<Row[]> {
  session.say(`recovery: ${AGENTS} agents take a task each`);
  const nats = await session.nats();
  const place = environmentOf({ busUrl: nats.url, storeUrl: `lmdb:${session.folder()}/store?shared` });
  const services = await Promise.all(
    (["writer", "watchdog"] as const).map((role) => startService(role, place)),
  );
  const [, watchdog] = services;
  await session.keep(
    Promise.resolve({
      async stop() {
        await Promise.all(services.map((service) => service.kill9()));
      },
    }),
  );
  const agents = session.program<FailingAgentsJobs>("./failing-agents.ts");
  await agents.run("connectAll", { url: nats.url, takes: false });
  await agents.run("own", { name: "hearty", count: AGENTS, writes: false });
  session.say("recovery: they beat");
  await agents.run("beat", { name: "hearty", count: AGENTS, seconds: session.seconds(24) });
  const used = processorTime(watchdog?.pid ?? null);
  const seconds = session.seconds(40);
  const beats = await agents.run("beat", { name: "hearty", count: AGENTS, seconds });
  const us = used();
  const percent = us === null ? null : (100 * us) / (seconds * US_PER_SECOND);
  await agents.run("disconnect", {});
  await agents.stop();
  return [
    row(`heartbeats of ${AGENTS.toLocaleString("en-US")} agents`, beats / seconds, "beats/s"),
    row("a watchdog hears them, keeps their leases", percent, "% of a core", TARGETS.hearing),
  ];
}
