// Program: agents that own tasks, say that they live, and then say nothing any more; and a resident agent that goes on with what is
// offered. All on one clock, so that what the fleet writes down can be compared with what was seen here.

import { setTimeout as sleep } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import type { EventType, FleetEvent } from "../../../shared/protocol/events.ts";
import { DEFAULT_POLICY } from "../../../shared/protocol/policy.ts";
import { type CommandOp, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { serveJobs } from "../jobs.ts";
import { type Summary, summarize } from "../measure/percentiles.ts";
import { createWorkload } from "../workload.ts";

const TYPE = "implementation";
const TENANT = "default";
/** Above what dies at once: the taker is never what others wait for. */
const HANDS = 256;
/** Requests under way. */
const AT_ONCE = 64;
const BEAT_MS = 2_000;
const TICK_MS = 50;
const COMMAND_MS = 10_000;
/** For watchdogs to have heard everybody. */
const HEARD_MS = 1_500;
const RECOVERED_MS = 120_000;

const log = createLogger({ service: "bench", level: "silent" });
const workload = createWorkload(5);
let bus: Bus;
let taker: FleetClient | undefined;

const jobs = { connectAll, own, beat, die, disconnect };
export type FailingAgentsJobs = typeof jobs;
serveJobs(jobs);

async function connectAll({ url, takes }: { url: string; takes: boolean }): Promise<void> {
  bus = await connectBus({ url, name: "bench", identity: "bench", log });
  if (!takes) return;
  taker = await connect({ url, agentId: "bench-taker", fallback: "none" });
  await taker.onOffer(
    TYPE,
    async (offer) => {
      const { task } = await offer.acknowledge();
      const metadata = { agent_type: TYPE, trigger: { reason: "reassignment" } } as const;
      await task.checkpoint({ ...workload.checkpoint(1, 1), metadata });
    },
    { concurrency: HANDS },
  );
}

async function disconnect(_: object): Promise<void> {
  await taker?.close();
  await bus.close();
}

interface Agents {
  readonly name: string;
  readonly count: number;
}

const names = ({ name, count }: Agents): string[] => Array.from({ length: count }, (_, i) => `${name}-${i}`);

/** Each agent takes the task of its own name; `writes`: and writes a checkpoint. */
async function own({ writes, ...agents }: Agents & { writes: boolean }): Promise<void> {
  const all = names(agents).values();
  const lane = async (): Promise<void> => {
    for (const agent of all) {
      await command("take", agent, {});
      const checkpoint = { ...workload.checkpoint(0, 1), metadata: { agent_type: TYPE } };
      if (writes) await command("create", agent, { fence: 1, checkpoint });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

async function command(op: CommandOp, agent: string, body: object): Promise<void> {
  const out = { body: Buffer.from(JSON.stringify({ command_id: uuidv7(), ...body })) };
  const { body: answer } = await bus.request(SUBJECTS.command(TENANT, agent, agent, op), out, {
    timeoutMs: COMMAND_MS,
  });
  const { status } = JSON.parse(Buffer.from(answer).toString()) as { status: string };
  if (status !== "committed") throw new Error(`${op} of ${agent}: ${Buffer.from(answer)}`);
}

function say(agent: string): void {
  const beat = {
    agent_id: agent,
    agent_type: TYPE,
    state: "working",
    task_id: agent,
    fence: 1,
    host: "bench",
    pid: process.pid,
    sent_at: new Date().toISOString(),
  };
  bus.publish(SUBJECTS.heartbeat(TENANT, agent), { body: Buffer.from(JSON.stringify(beat)) });
}

/** Each once every two seconds, spread evenly; resolves with how many were sent. */
async function beat({ seconds, ...agents }: Agents & { seconds: number }): Promise<number> {
  const all = names(agents);
  const begin = performance.now();
  let sent = 0;
  for (let elapsed = 0; elapsed < seconds * 1_000; elapsed = performance.now() - begin) {
    const due = (elapsed / BEAT_MS) * all.length;
    for (; sent < due; sent += 1) say(all[sent % all.length] as string);
    await sleep(TICK_MS);
  }
  return sent;
}

export interface Recoveries {
  /** From the moment at which the last lease of an agent was over, in milliseconds. */
  readonly noted: Summary;
  readonly offered: Summary;
  readonly resumed: Summary;
  readonly failed: number;
}

/** All fall silent at the same instant, after a last beat at the same instant. */
async function die(agents: Agents): Promise<Recoveries> {
  const all = new Set(names(agents));
  const seen = { AGENT_FAILED: [], HANDOFF_OFFERED: [], RECOVERY_COMPLETED: [] } as Record<string, number[]>;
  let over = 0;
  const look = ({ type, subject, time }: FleetEvent<EventType>): void => {
    if (all.has(subject)) seen[type]?.push(Date.parse(time) - over);
  };
  const filter = SUBJECTS.tenantEvents(TENANT);
  const stop = await bus.follow({ stream: STREAMS.events, filter, from: "new" }, ({ body }) => {
    look(JSON.parse(Buffer.from(body).toString()) as FleetEvent);
  });
  for (const agent of all) say(agent);
  await sleep(HEARD_MS);
  for (const agent of all) say(agent);
  const { silence_ms: silenceMs } = DEFAULT_POLICY.recovery;
  over = Date.now() + silenceMs;
  const end = over + RECOVERED_MS;
  const { AGENT_FAILED: noted = [], HANDOFF_OFFERED: offered = [], RECOVERY_COMPLETED: resumed = [] } = seen;
  while (resumed.length < all.size && Date.now() < end) await sleep(TICK_MS);
  await stop();
  const failed = all.size - resumed.length;
  return { noted: summarize(noted), offered: summarize(offered), resumed: summarize(resumed), failed };
}
