// Handing tasks over: from the request of the agent that has a task to the moment when the next one, which is resident, has it.

import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { HandoffJobs } from "../programs/handoffs.ts";
import type { Session } from "../session.ts";

const AT_ONCE = 100;

export async function measureHandoff(session: Session): Promise<Group> {
  session.say("handoff: starting a fleet and warming it up");
  const fleet = await session.fleet(session.folder());
  const agents = session.program<HandoffJobs>("./handoffs.ts");
  await agents.run("connectBoth", { url: fleet.busUrl });
  await agents.run("handOver", { rounds: session.options.quick ? 1 : 5, atOnce: AT_ONCE });
  session.say("handoff: one at a time");
  const one = await agents.run("handOver", { rounds: Math.ceil(session.seconds(100)), atOnce: 1 });
  session.say(`handoff: ${AT_ONCE} at once`);
  const many = await agents.run("handOver", { rounds: Math.ceil(session.seconds(16)), atOnce: AT_ONCE });
  await agents.run("disconnect", {});
  await agents.stop();
  await fleet.stop();
  return {
    name: "handoff",
    about: "from the request to the moment when a resident agent has the task; prompt and offer included",
    rows: [
      row("requested to accepted, one at a time, p50", one.p50, "ms"),
      row("requested to accepted, one at a time, p99", one.p99, "ms", TARGETS.handoff),
      row(`requested to accepted, ${AT_ONCE} at once, p50`, many.p50, "ms"),
      row(`requested to accepted, ${AT_ONCE} at once, p99`, many.p99, "ms", TARGETS.handoff),
      row(`requested to accepted, ${AT_ONCE} at once, max`, many.max, "ms"),
      row("handoffs", one.count + many.count, "handoffs"),
      row("failed", one.failed + many.failed, "requests", TARGETS.failed),
    ],
  };
}
