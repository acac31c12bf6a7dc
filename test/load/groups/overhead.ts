// The cost of checkpoints for the agent that writes them: how much longer its work takes than the same work without them.

import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { WorkingAgentJobs } from "../programs/working-agent.ts";
import type { Session } from "../session.ts";

/** The answer time of a fast model. The longer a call, the smaller the overhead. */
const CALL_MS = 500;
const DEFAULT_ITEMS = 3;

export async function measureOverhead(session: Session): Promise<Group> {
  session.log("overhead: starting a fleet and an agent");
  const fleet = await session.fleet(session.folder());
  const agent = session.program<WorkingAgentJobs>("working-agent");
  const work = (task: string, calls: number, callMs: number, items: number) =>
    agent.run("withCheckpoints", { url: fleet.busUrl, task, calls, callMs, items });
  await work("warm-up", 50, 5, 1);
  const calls = Math.ceil(session.seconds(40));
  session.log(`overhead: ${calls} calls of ${CALL_MS} ms without checkpoints, with few and with many`);
  const alone = await agent.run("withoutCheckpoints", { calls, callMs: CALL_MS });
  const few = await work("few", calls, CALL_MS, DEFAULT_ITEMS);
  const many = await work("many", calls, CALL_MS, 1);
  await agent.stop();
  await fleet.stop();
  const percent = ({ elapsedMs }: typeof alone) => (elapsedMs / alone.elapsedMs - 1) * 100;
  const perCall = ({ elapsedMs }: typeof alone) => (elapsedMs - alone.elapsedMs) / calls;
  const processor = (many.processorMs - alone.processorMs) / calls;
  return {
    name: "overhead",
    about: `an agent that calls a model ${calls} times, ${CALL_MS} ms each, compared with the same work without checkpoints`,
    rows: [
      row(
        `longer with a checkpoint of 4 KB every ${DEFAULT_ITEMS} calls`,
        percent(few),
        "%",
        TARGETS.overhead,
      ),
      row("longer with a checkpoint after every call", percent(many), "%", TARGETS.overhead),
      row("the same, per call", perCall(many), "ms"),
      row("the same, processor time of the agent per call", processor, "ms"),
    ],
  };
}
