/** Records the heartbeats directly at the bus, without a proxy. The verdict compares the failures that the services record with them. */
import { connectBus } from "../../../../shared/bus/connection.ts";
import { heartbeatSchema } from "../../../../shared/protocol/heartbeat.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import type { HeartbeatRecord } from "../checker/evidence.ts";

export interface HeartbeatRecorder {
  /** The heartbeats of agents that had a task, in the order of their arrival. */
  readonly heartbeats: readonly HeartbeatRecord[];
  close(): Promise<void>;
}

export async function startHeartbeatRecorder(url: string): Promise<HeartbeatRecorder> {
  const log = createLogger({ service: "faults", level: "silent" });
  const bus = await connectBus({
    url,
    name: "heartbeat-recorder",
    identity: "heartbeat-recorder",
    log,
    connectTimeoutMs: 10_000,
  });
  const heartbeats: HeartbeatRecord[] = [];
  await bus.subscribe(SUBJECTS.everyHeartbeat, ({ body }) => {
    const heartbeat = heartbeatSchema.parse(JSON.parse(Buffer.from(body).toString()));
    if (heartbeat.task_id === undefined || heartbeat.fence === undefined) return;
    heartbeats.push({
      agent: heartbeat.agent_id,
      task: heartbeat.task_id,
      fence: heartbeat.fence,
      sentAt: Date.parse(heartbeat.sent_at),
      receivedAt: Date.now(),
      stepDeadline: heartbeat.step_deadline === undefined ? null : Date.parse(heartbeat.step_deadline),
    });
  });
  return { heartbeats, close: () => bus.close() };
}
