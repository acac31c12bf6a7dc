// Handoffs: from the request of the owner to the moment when a resident agent owns the task.

import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { HandoffJobs } from "../programs/handoffs.ts";
import type { Session } from "../session.ts";

const CONCURRENCY = 100;

export async function measureHandoff(session: Session): Promise<Group> {
  session.log("handoff: starting a fleet and warming it up");
  const fleet = await session.fleet(session.folder());
  const agents = session.program<HandoffJobs>("handoffs");
  await agents.run("connectBoth", { url: fleet.busUrl });
  await agents.run("handOff", { rounds: session.options.quick ? 1 : 5, concurrency: CONCURRENCY });
  session.log("handoff: one at a time");
  const one = await agents.run("handOff", { rounds: Math.ceil(session.seconds(100)), concurrency: 1 });
  session.log(`handoff: ${CONCURRENCY} at once`);
  const many = await agents.run("handOff", {
    rounds: Math.ceil(session.seconds(16)),
    concurrency: CONCURRENCY,
  });
  await agents.run("disconnect", {});
  await agents.stop();
  await fleet.stop();
  return {
    name: "handoff",
    about: "from the request to the moment when a resident agent owns the task; prompt and offer included",
    rows: [
      row("requested to accepted, one at a time, p50", one.p50, "ms"),
      row("requested to accepted, one at a time, p99", one.p99, "ms", TARGETS.handoff),
      row(`requested to accepted, ${CONCURRENCY} at once, p50`, many.p50, "ms"),
      row(`requested to accepted, ${CONCURRENCY} at once, p99`, many.p99, "ms", TARGETS.handoffs_at_once),
      row(`requested to accepted, ${CONCURRENCY} at once, max`, many.max, "ms"),
      row("handoffs", one.count + many.count, "handoffs"),
      row("failed", one.failed + many.failed, "requests", TARGETS.failed),
    ],
  };
}
