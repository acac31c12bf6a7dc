/**
 * Records the heartbeats directly at each server of the bus, without a proxy. The verdict compares the failures that the services record with
 * them.
 */
import { connectBus } from "../../../../shared/bus/connection.ts";
import { heartbeatSchema } from "../../../../shared/protocol/heartbeat.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import type { HeartbeatRecord } from "../checker/evidence.ts";
import type { BusServers } from "../environment/bus/bus-servers.ts";

export interface HeartbeatRecorder {
  /** The heartbeats of agents that had a task, in the order of their arrival. */
  readonly heartbeats: readonly HeartbeatRecord[];
  close(): Promise<void>;
}

/** null: its agent had no task. */
export function heartbeatIn(body: Uint8Array): HeartbeatRecord | null {
  const heartbeat = heartbeatSchema.parse(JSON.parse(Buffer.from(body).toString()));
  const { agent_id: agent, task_id: task, fence, sent_at, step_deadline: deadline } = heartbeat;
  if (task === undefined || fence === undefined) return null;
  return {
    ...{ agent, task, fence, sentAt: Date.parse(sent_at), receivedAt: Date.now() },
    stepDeadline: deadline === undefined ? null : Date.parse(deadline),
  };
}

/** Listens at every server of the bus: a heartbeat that a watchdog received by any of them is recorded although one of them is down. */
export async function startHeartbeatRecorder({ all, credentials }: BusServers): Promise<HeartbeatRecorder> {
  const log = createLogger({ service: "faults", level: "silent" });
  const heartbeats: HeartbeatRecord[] = [];
  const known = new Set<string>();
  const record = (body: Uint8Array): void => {
    const heartbeat = heartbeatIn(body);
    if (heartbeat === null) return;
    const { agent, task, fence, sentAt, stepDeadline } = heartbeat;
    const name = `${agent} ${task} ${fence} ${sentAt} ${stepDeadline}`;
    // Another server has delivered it already.
    if (all.length > 1 && known.has(name)) return;
    known.add(name);
    heartbeats.push(heartbeat);
  };
  const buses = await Promise.all(
    all.map(({ url }, i) => {
      const name = `heartbeat-recorder-${i}`;
      return connectBus({ url, name, identity: name, log, connectTimeoutMs: 10_000, ...credentials });
    }),
  );
  for (const bus of buses) await bus.subscribe(SUBJECTS.everyHeartbeat, ({ body }) => record(body));
  return {
    heartbeats,
    close: async () => {
      await Promise.all(buses.map((bus) => bus.close()));
    },
  };
}
