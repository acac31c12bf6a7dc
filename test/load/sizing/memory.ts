// The memory that a watchdog keeps for each agent that it hears: the last heartbeat, and the owner that it monitors.

import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Counts } from "../../../deploy/sizing/figures.ts";
import { MonitoredOwners } from "../../../services/watchdog/detection/monitored-owners.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { subscribeHeartbeats } from "../../../shared/service-host/heartbeat-subscription.ts";
import { testLog } from "../../harness/processes/nats.ts";
import type { CountedFleet } from "./counted-fleet.ts";

/** Below the number that a process remembers, and many, so that nothing else matters. */
const AGENTS = 15_000;
/** The memory that one collection frees may hold more for the next. */
const COLLECTIONS = 4;

export async function countMemory(fleet: CountedFleet): Promise<Counts["memory"]> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const used = async (): Promise<number> => {
    for (let i = 0; i < COLLECTIONS; i += 1) {
      await turn();
      collect();
    }
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const bus = await fleet.connect("memory");
  const owners = new MonitoredOwners();
  const before = await used();
  const heard = new Set<string>();
  const subscription = await subscribeHeartbeats({
    bus,
    clock: systemClock,
    log: testLog,
    onBeat: ({ tenant, beat, lastAt }) => {
      const { agent_id: agentId, agent_type: agentType, task_id: task = "", fence = 0 } = beat;
      const times = { heardAt: lastAt, lastSignAt: lastAt, leaseUntil: 0, checkedAt: 0, notBefore: 0 };
      owners.add({ tenant, task, fence, agentId, agentType, silenceMs: 10_000, isOverdue: false, ...times });
      heard.add(agentId);
    },
  });
  for (let n = 0; n < AGENTS; n += 1)
    fleet.bus.publish(SUBJECTS.heartbeat("default", agentOf(n)), { body: beatOf(n) });
  await fleet.until("all heartbeats", async () => heard.size === AGENTS);
  heard.clear();
  const bytes = ((await used()) - before) / AGENTS;
  await subscription.stop();
  await bus.close();
  return { watchdog_bytes_per_agent: Math.round(bytes / 10) * 10 };
}

const agentOf = (n: number): string => `agent-${String(n).padStart(6, "0")}`;

function beatOf(n: number): Uint8Array {
  const place = { task_id: `task-${n}`, fence: 1, host: "host", pid: 4_242 };
  const beat = {
    agent_id: agentOf(n),
    agent_type: "qa",
    state: "working",
    sent_at: new Date().toISOString(),
  };
  return Buffer.from(JSON.stringify({ ...beat, ...place }));
}
