/**
 * Program that no fault strikes, and whose connection none touches: it starts the tasks of the workers, reads what was damaged, and has
 * healthy agents of its own, which nobody may ever take for dead.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { runAgent } from "../../../../shared/sdk/sdk.ts";
import { type AgentContext, takeStep } from "../agents/agent.ts";
import { Crew, type CrewArguments } from "../agents/crew.ts";
import type { ReadStep } from "../agents/workload.ts";
import { withCalls } from "./calls.ts";
import {
  DAMAGED,
  HEALTHY,
  HEARTBEAT_MS,
  HIRED,
  HIRED_SHARE,
  ITEMS,
  type Kind,
  SHARES,
  taskName,
  WORKER,
} from "./kinds.ts";
import { hasEnded } from "./tasks.ts";

export interface OfficeArguments extends CrewArguments {
  readonly healthy: number;
  /** So many tasks of workers are under way at once. */
  readonly open: number;
  /** Whether somebody can damage what is stored. */
  readonly canDamage: boolean;
  readonly hasRunner: boolean;
}

/** To the parent: a task that was started. */
export interface Started {
  readonly started: string;
}
/** From the parent: something was damaged; no more tasks are to be started. */
export interface OfficeOrder {
  readonly damaged?: { readonly task: string; readonly checkpointId: string };
  readonly closing?: true;
}

const LOOK_EVERY_MS = 300;
/** Longer than the silence that makes an agent count as dead: its heartbeat alone says that it lives. */
const HEALTHY_ITEM_MS = 7_000;
const READS_AFTER_MS = [0, 300, 3_000];

const o = JSON.parse(process.argv[2]!) as OfficeArguments;
const crew = new Crew(o);
let isClosing = false;

const kinds = SHARES.filter(([, kind]) => o.canDamage || !DAMAGED.has(kind));
/** Each kind once, then by their shares. */
const first = kinds.map(([, kind]) => kind);

function nextKind(): Kind {
  const next = first.pop();
  if (next !== undefined) return next;
  let left = crew.random() * kinds.reduce((sum, [share]) => sum + share, 0);
  for (const [share, kind] of kinds) {
    left -= share;
    if (left < 0) return kind;
  }
  return "sound";
}

async function startTask(client: FleetClient, name: string, agentType: string): Promise<void> {
  const items = Array.from({ length: ITEMS }, (_, i) => ({ title: `item ${i}` }));
  const checkpoint = {
    metadata: { agent_type: agentType },
    execution_state: {
      phase: "handoff",
      pending_items: items,
      resume_pointer: { next_action: "Do the first item", phase: "implementing" },
    },
  } as const;
  await client.createCheckpoint({
    ...{ taskId: name, commandId: uuidv7(), checkpoint: checkpoint as never },
    handoff: { toAgentType: agentType, reason: "to be done" },
  });
}

async function startTasks(client: FleetClient): Promise<void> {
  const open = new Set<string>();
  for (let n = 0; !isClosing && !crew.stopping.aborted; ) {
    for (const name of open) {
      const task = await client.getTask(name, { deadlineMs: 1_000 }).catch(() => null);
      if (task !== null && hasEnded(task)) open.delete(name);
    }
    while (open.size < o.open && !isClosing) {
      const kind = nextKind();
      const name = taskName(kind, ++n);
      const isHired = o.hasRunner && !DAMAGED.has(kind) && crew.random() < HIRED_SHARE;
      open.add(name);
      process.send?.({ started: name } satisfies Started);
      await startTask(client, name, isHired ? HIRED : WORKER).catch((error) =>
        crew.log.warn({ error, name }, "a task may not be started"),
      );
    }
    await sleep(LOOK_EVERY_MS);
  }
}

/** In every way that an agent would. */
async function readDamaged(reader: AgentContext, task: string, id: string): Promise<void> {
  const steps: ReadStep[] = [
    { op: "get", task, id },
    { op: "latest", task },
    { op: "history", task, limit: 20 },
  ];
  for (const ms of READS_AFTER_MS) {
    await sleep(ms);
    for (const step of steps) await takeStep(reader, step);
  }
}

async function liveOn(place: number): Promise<FleetClient> {
  const { client } = await crew.join(place, (bus) => withCalls(bus, crew));
  for (let n = 0; !crew.stopping.aborted; n += 1) {
    const task = taskName("healthy", 1_000 * place + n);
    let fence = 0;
    try {
      await runAgent({
        ...{ fleet: client, type: HEALTHY, heartbeatMs: HEARTBEAT_MS, signal: crew.stopping },
        task,
        begin: { pending_items: Array.from({ length: 500 }, (_, i) => `item ${i}`) },
        checkpoints: { items: 1 },
        async work(run) {
          ({ fence } = run);
          for (const item of run.items()) {
            await sleep(HEALTHY_ITEM_MS, undefined, { signal: run.signal });
            await run.done(item);
          }
        },
      });
    } catch (error) {
      // As when neither bus nor disk takes what it has done; the same may keep its report of that from everybody.
      crew.log.warn({ error }, "a healthy agent came to an end");
      await crew.history.append({
        ...{ line: "life", at: Date.now(), agent: client.agentId, task, fence },
        what: "fails",
      });
      await sleep(LOOK_EVERY_MS);
    }
  }
  return client;
}

const starter = await crew.join(0, (bus) => withCalls(bus, crew));
const reader = await crew.join(1);
const reading = new Set<Promise<void>>();
process.on("message", ({ damaged, closing }: OfficeOrder) => {
  if (closing) isClosing = true;
  if (damaged === undefined) return;
  const underway = readDamaged(reader, damaged.task, damaged.checkpointId);
  reading.add(underway.finally(() => reading.delete(underway)));
});
process.send?.({ ready: true });
const agents = Array.from({ length: o.healthy }, (_, place) => liveOn(2 + place));
await startTasks(starter.client);
const clients = await Promise.all(agents);
await Promise.all(reading);
await crew.leave([starter.client, reader.client, ...clients]);
