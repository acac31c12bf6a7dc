// What checkpoints cost the agent that writes them: how much longer its work takes than the same work without them.

import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { WorkingAgentJobs } from "../programs/working-agent.ts";
import type { Session } from "../session.ts";

/** A model that answers sooner than most do; the longer a call, the smaller the share. */
const CALL_MS = 500;
const DEFAULT_ITEMS = 5;

export async function measureOverhead(session: Session): Promise<Group> {
  session.say("overhead: starting a fleet and an agent");
  const fleet = await session.fleet(session.folder());
  const agent = session.program<WorkingAgentJobs>("./working-agent.ts");
  const keep = (task: string, calls: number, callMs: number, items: number) =>
    agent.run("kept", { url: fleet.busUrl, task, calls, callMs, items });
  await keep("warm-up", 50, 5, 1);
  const calls = Math.ceil(session.seconds(40));
  session.say(`overhead: ${calls} calls of ${CALL_MS} ms without checkpoints, with few and with many`);
  const alone = await agent.run("alone", { calls, callMs: CALL_MS });
  const few = await keep("few", calls, CALL_MS, DEFAULT_ITEMS);
  const many = await keep("many", calls, CALL_MS, 1);
  await agent.stop();
  await fleet.stop();
  const percent = ({ elapsedMs }: typeof alone) => (elapsedMs / alone.elapsedMs - 1) * 100;
  const each = ({ elapsedMs }: typeof alone) => (elapsedMs - alone.elapsedMs) / calls;
  const processor = (many.processorMs - alone.processorMs) / calls;
  return {
    name: "overhead",
    about: `an agent that calls a model ${calls} times, ${CALL_MS} ms each, beside the same without checkpoints`,
    rows: [
      row(
        `a checkpoint of 4 KB every ${DEFAULT_ITEMS} calls, longer by`,
        percent(few),
        "%",
        TARGETS.overhead,
      ),
      row("a checkpoint after every call, longer by", percent(many), "%", TARGETS.overhead),
      row("the same, of one call", each(many), "ms"),
      row("the same, the agent's processor time of one call", processor, "ms"),
    ],
  };
}
