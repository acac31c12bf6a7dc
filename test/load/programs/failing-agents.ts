// Program: agents that own tasks, send heartbeats and then fall silent, and a resident agent that continues the offered tasks. The
// fleet runs on the same machine, so the times of its events can be compared with the times that this program measures.

import { setTimeout as sleep } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import type { EventType, FleetEvent } from "../../../shared/protocol/events.ts";
import type { CommandOp } from "../../../shared/protocol/operations.ts";
import { DEFAULT_POLICY } from "../../../shared/protocol/policy.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { serveJobs } from "../jobs.ts";
import { type Summary, summarize } from "../measure/percentiles.ts";
import { createWorkload } from "../workload.ts";

const TYPE = "implementation";
const TENANT = "default";
/** Above the number of agents that fail together, so that no offer waits for the resident agent. */
const OFFER_CONCURRENCY = 256;
const REQUESTS_IN_FLIGHT = 64;
const HEARTBEAT_MS = 2_000;
const TICK_MS = 50;
const COMMAND_MS = 10_000;
/** Long enough for the watchdogs to receive a heartbeat of every agent. */
const RECEIVED_MS = 1_500;
const RECOVERED_MS_MAX = 120_000;

const log = createLogger({ service: "bench", level: "silent" });
const workload = createWorkload(5);
let bus: Bus;
let resident: FleetClient | undefined;

const jobs = { connectAll, takeTasks, sendHeartbeats, failAll, disconnect };
export type FailingAgentsJobs = typeof jobs;
serveJobs(jobs);

async function connectAll({ url, accepts }: { url: string; accepts: boolean }): Promise<void> {
  bus = await connectBus({ url, name: "bench", identity: "bench", log });
  if (!accepts) return;
  resident = await connect({ url, agentId: "bench-resident", fallback: "none" });
  await resident.onOffer(
    TYPE,
    async (offer) => {
      const { task } = await offer.acknowledge();
      const metadata = { agent_type: TYPE, trigger: { reason: "reassignment" } } as const;
      await task.checkpoint({ ...workload.checkpoint(1, 1), metadata });
    },
    { concurrency: OFFER_CONCURRENCY },
  );
}

async function disconnect(_: object): Promise<void> {
  await resident?.close();
  await bus.close();
}

interface Agents {
  readonly name: string;
  readonly count: number;
}

const names = ({ name, count }: Agents): string[] => Array.from({ length: count }, (_, i) => `${name}-${i}`);

/** Each agent takes the task of its own name, and writes a checkpoint if `writes` is true. */
async function takeTasks({ writes, ...agents }: Agents & { writes: boolean }): Promise<void> {
  const all = names(agents).values();
  const sender = async (): Promise<void> => {
    for (const agent of all) {
      await command("take", agent, {});
      const checkpoint = { ...workload.checkpoint(0, 1), metadata: { agent_type: TYPE } };
      if (writes) await command("create", agent, { fence: 1, checkpoint });
    }
  };
  await Promise.all(Array.from({ length: REQUESTS_IN_FLIGHT }, sender));
}

async function command(op: CommandOp, agent: string, body: object): Promise<void> {
  const out = { body: Buffer.from(JSON.stringify({ command_id: uuidv7(), ...body })) };
  const { body: answer } = await bus.request(SUBJECTS.command(TENANT, agent, agent, op), out, {
    timeoutMs: COMMAND_MS,
  });
  const { status } = JSON.parse(Buffer.from(answer).toString()) as { status: string };
  if (status !== "committed") throw new Error(`${op} of ${agent}: ${Buffer.from(answer)}`);
}

function sendHeartbeat(agent: string): void {
  const heartbeat = {
    agent_id: agent,
    agent_type: TYPE,
    state: "working",
    task_id: agent,
    fence: 1,
    host: "bench",
    pid: process.pid,
    sent_at: new Date().toISOString(),
  };
  bus.publish(SUBJECTS.heartbeat(TENANT, agent), { body: Buffer.from(JSON.stringify(heartbeat)) });
}

/** Sends a heartbeat of each agent every two seconds, spread evenly; resolves with the number of heartbeats. */
async function sendHeartbeats({ seconds, ...agents }: Agents & { seconds: number }): Promise<number> {
  const all = names(agents);
  const begin = performance.now();
  let sent = 0;
  for (let elapsed = 0; elapsed < seconds * 1_000; elapsed = performance.now() - begin) {
    const due = (elapsed / HEARTBEAT_MS) * all.length;
    for (; sent < due; sent += 1) sendHeartbeat(all[sent % all.length] as string);
    await sleep(TICK_MS);
  }
  return sent;
}

export interface Recoveries {
  /** The time from the end of the agents' silence timeout to each event, in milliseconds. */
  readonly noted: Summary;
  readonly offered: Summary;
  readonly resumed: Summary;
  readonly failed: number;
}

/** All agents send a last heartbeat at the same instant and then fall silent. */
async function failAll(agents: Agents): Promise<Recoveries> {
  const all = new Set(names(agents));
  const times = { AGENT_FAILED: [], HANDOFF_OFFERED: [], RECOVERY_COMPLETED: [] } as Record<string, number[]>;
  let failedAt = 0;
  const record = ({ type, subject, time }: FleetEvent<EventType>): void => {
    if (all.has(subject)) times[type]?.push(Date.parse(time) - failedAt);
  };
  const filter = SUBJECTS.tenantEvents(TENANT);
  const stop = await bus.follow({ stream: STREAMS.events, filter, from: "new" }, ({ body }) => {
    record(JSON.parse(Buffer.from(body).toString()) as FleetEvent);
  });
  for (const agent of all) sendHeartbeat(agent);
  await sleep(RECEIVED_MS);
  for (const agent of all) sendHeartbeat(agent);
  const { silence_ms: silenceMs } = DEFAULT_POLICY.recovery;
  failedAt = Date.now() + silenceMs;
  const end = failedAt + RECOVERED_MS_MAX;
  const { AGENT_FAILED: noted = [], HANDOFF_OFFERED: offered = [], RECOVERY_COMPLETED: resumed = [] } = times;
  while (resumed.length < all.size && Date.now() < end) await sleep(TICK_MS);
  await stop();
  const failed = all.size - resumed.length;
  return { noted: summarize(noted), offered: summarize(offered), resumed: summarize(resumed), failed };
}
