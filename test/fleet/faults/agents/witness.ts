/** Hears at the bus itself, past all proxies, which agents live: what services were told is judged by it. */
import { connectBus } from "../../../../shared/bus/connection.ts";
import { heartbeatSchema } from "../../../../shared/protocol/heartbeat.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import type { Beat } from "../checker/evidence.ts";

export interface Witness {
  /** Beats of agents that had a task, in the order in which they were heard. */
  readonly beats: readonly Beat[];
  close(): Promise<void>;
}

export async function startWitness(url: string): Promise<Witness> {
  const log = createLogger({ service: "faults", level: "silent" });
  const bus = await connectBus({ url, name: "witness", identity: "witness", log, connectTimeoutMs: 10_000 });
  const beats: Beat[] = [];
  await bus.subscribe(SUBJECTS.everyHeartbeat, ({ body }) => {
    const beat = heartbeatSchema.parse(JSON.parse(Buffer.from(body).toString()));
    if (beat.task_id === undefined || beat.fence === undefined) return;
    beats.push({
      agent: beat.agent_id,
      task: beat.task_id,
      fence: beat.fence,
      sentAt: Date.parse(beat.sent_at),
      heardAt: Date.now(),
      stepDeadline: beat.step_deadline === undefined ? null : Date.parse(beat.step_deadline),
    });
  });
  return { beats, close: () => bus.close() };
}
