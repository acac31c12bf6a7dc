/**
 * Program without faults in its process or its connection: it starts the tasks of the workers, reads damaged checkpoints, and runs healthy
 * agents, which must never lose a task.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { AgentGroup, type AgentGroupArguments } from "../agents/agent-group.ts";
import { withCalls } from "./calls.ts";
import { readDamaged } from "./damage-reads.ts";
import { workHealthily } from "./healthy-agent.ts";
import { DAMAGED, LAUNCHED, LAUNCHED_SHARE, SHARES, type TaskKind, taskName, WORKER } from "./task-kinds.ts";
import { startTask } from "./task-start.ts";
import { hasEnded } from "./task-state.ts";

export interface DispatcherArguments extends AgentGroupArguments {
  readonly healthy: number;
  /** The number of concurrent tasks of workers. */
  readonly open: number;
  /** Whether the store can be damaged. */
  readonly canDamage: boolean;
  readonly hasRunner: boolean;
}

/** The message to the parent about a started task. */
export interface TaskStarted {
  readonly started: string;
}
/** The message from the parent: a checkpoint was damaged, or no further tasks may start. */
export interface DispatcherMessage {
  readonly damaged?: { readonly task: string; readonly checkpointId: string };
  readonly closing?: true;
}

const CHECK_EVERY_MS = 300;

const o = JSON.parse(process.argv[2]!) as DispatcherArguments;
const group = new AgentGroup(o);
let isClosing = false;

const kinds = SHARES.filter(([, kind]) => o.canDamage || !DAMAGED.has(kind));
/** Every kind once; after that the shares determine the kind. */
const first = kinds.map(([, kind]) => kind);

function nextKind(): TaskKind {
  const next = first.pop();
  if (next !== undefined) return next;
  let left = group.random() * kinds.reduce((sum, [share]) => sum + share, 0);
  for (const [share, kind] of kinds) {
    left -= share;
    if (left < 0) return kind;
  }
  return "normal";
}

async function startTasks(client: FleetClient): Promise<void> {
  const open = new Set<string>();
  for (let n = 0; !isClosing && !group.stopping.aborted; ) {
    for (const name of open) {
      const task = await client.getTask(name, { deadlineMs: 1_000 }).catch(() => null);
      if (task !== null && hasEnded(task)) open.delete(name);
    }
    while (open.size < o.open && !isClosing) {
      const kind = nextKind();
      const name = taskName(kind, ++n);
      const isLaunched = o.hasRunner && !DAMAGED.has(kind) && group.random() < LAUNCHED_SHARE;
      open.add(name);
      process.send?.({ started: name } satisfies TaskStarted);
      await startTask(client, name, isLaunched ? LAUNCHED : WORKER).catch((error) =>
        group.log.warn({ error, name }, "a task may not have started"),
      );
    }
    await sleep(CHECK_EVERY_MS);
  }
}

async function runHealthy(index: number): Promise<FleetClient> {
  const { client } = await group.connect(index, (bus) => withCalls(bus, group));
  await workHealthily(client, { index, group });
  return client;
}

const starter = await group.connect(0, (bus) => withCalls(bus, group));
const reader = await group.connect(1);
const reading = new Set<Promise<void>>();
process.on("message", ({ damaged, closing }: DispatcherMessage) => {
  if (closing) isClosing = true;
  if (damaged === undefined) return;
  const done = readDamaged(reader, damaged.task, damaged.checkpointId);
  reading.add(done.finally(() => reading.delete(done)));
});
process.send?.({ ready: true });
const agents = Array.from({ length: o.healthy }, (_, index) => runHealthy(2 + index));
await startTasks(starter.client);
const clients = await Promise.all(agents);
await Promise.all(reading);
await group.stop([starter.client, reader.client, ...clients]);
