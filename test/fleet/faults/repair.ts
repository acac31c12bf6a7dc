/**
 * The time after the faults: all faults are undone, the fleet must become idle by itself, and every open command is sent again, with the
 * same bytes, until it has an answer.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { isOpenHandoff } from "../../../shared/protocol/handoff-states.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import type { FleetClient } from "../../../shared/sdk/client/client.ts";
import { clientOn } from "./agents/client.ts";
import { sendCopy } from "./agents/copies.ts";
import {
  type History,
  type HistorySink,
  HistoryWriter,
  pairedHistory,
  readHistory,
} from "./agents/history.ts";
import type { Violation } from "./checker/evidence.ts";
import type { FaultFleet } from "./environment/fleet.ts";
import type { RoundFolders } from "./environment/round-folders.ts";
import { hasEnded } from "./workers/task-state.ts";

const OPEN_RECOVERIES = ["waiting", "attempted"] as const;
const READY_MS = 30_000;
const RESOLVE_MS = 30_000;
const CONCURRENCY = 16;

/** Undoes every fault, also a fault whose end was lost in a restart. */
export async function undoFaults(fleet: FaultFleet, folders: RoundFolders): Promise<void> {
  folders.free();
  fleet.bus.resume();
  for (const links of fleet.links.values()) links.set({ kind: "clear" });
  for (const one of [...fleet.services, ...fleet.agents, ...fleet.takers, ...fleet.workers]) one.resume();
  for (const one of fleet.services) one.send({ kind: "normal" });
  await fleet.bus.settled(READY_MS);
  await Promise.all(fleet.services.map((one) => one.ready(READY_MS)));
  // A service that started meanwhile is in the normal mode. A service that was paused may have missed the message, so it is repeated.
  for (const one of fleet.services) one.send({ kind: "normal" });
}

export interface Repair {
  readonly violations: readonly Violation[];
  /** The time until the fleet was idle: no queued command, no unpublished event, no checkpoint to index. */
  readonly idleMs: number;
  /** The outcomes of the commands that were open at the end of the faults. */
  readonly resolved: Readonly<Record<string, number>>;
}

/**
 * `stopTakers` stops the takers and workers. They run until every handoff and task has ended, including those that the resolution of open
 * commands begins.
 */
export async function recover(
  {
    fleet,
    folders,
    idleMs,
  }: { readonly fleet: FaultFleet; readonly folders: RoundFolders; readonly idleMs: number },
  stopTakers: () => Promise<void>,
): Promise<Repair> {
  const bus = await directBus(fleet);
  const connection = await connect({ ...fleet.bus.connectionOptions, timeout: 10_000 });
  try {
    let limitMs = idleMs;
    const becomeIdle = async (): Promise<Idle> => {
      const idle = await untilIdle(fleet, { bus, connection, idleMs: limitMs });
      // After one failure there is no further wait.
      if (idle.violations.length > 0) limitMs = 0;
      return idle;
    };
    const first = await becomeIdle();
    const resolved = await resolveAll(bus, folders, "resolving");
    const second = await becomeIdle();
    await stopTakers();
    // The commands of the takers were answered, so no command should be open.
    const late = await resolveAll(bus, folders, "resolving-takers");
    const third = await becomeIdle();
    return {
      violations: [...first.violations, ...second.violations, ...third.violations],
      idleMs: first.ms + second.ms + third.ms,
      resolved: added(resolved, late),
    };
  } finally {
    await bus.close();
    await connection.close();
  }
}

function added(one: Readonly<Record<string, number>>, other: typeof one): Record<string, number> {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return Object.fromEntries([...names].map((name) => [name, (one[name] ?? 0) + (other[name] ?? 0)]));
}

/** A connection without a proxy. */
function directBus({ bus: { url, credentials } }: FaultFleet): Promise<Bus> {
  const log = createLogger({ service: "faults", level: "silent" });
  const options = { url, name: "faults", identity: "faults", log, connectTimeoutMs: 10_000 };
  return connectBus({ ...options, ...credentials });
}

interface Idle {
  readonly ms: number;
  readonly violations: readonly Violation[];
}

/** So many times `idleMs` is the limit of the whole wait by default. */
const WHOLE_WAIT = 5;

/**
 * `started`: the tasks that must end. A machine that needs ten seconds for the start of an agent needs minutes for a task whose agents all fail, so `idleMs`
 * is the limit of the time in which no handoff and no task changes, and `wholeMs` that of the whole wait.
 */
export async function untilIdle(
  { started }: Pick<FaultFleet, "started">,
  {
    bus,
    connection,
    idleMs,
    wholeMs = WHOLE_WAIT * idleMs,
    pollMs = 100,
  }: {
    readonly bus: Bus;
    readonly connection: NatsConnection;
    readonly idleMs: number;
    readonly wholeMs?: number;
    readonly pollMs?: number;
  },
): Promise<Idle> {
  const client = clientOn(bus, "faults");
  const unfinished = new Set(started);
  const begin = performance.now();
  let last: unknown = null;
  let progress = { state: "", atMs: 0 };
  for (;;) {
    const ms = performance.now() - begin;
    try {
      const { outbox, index } = await client.admin.status();
      const queue = await client.admin.queueStatus();
      const handoffs = await openHandoffs(client);
      const messages = await pendingMessages(connection);
      const tasks = [...(await openRecoveries(client)), ...(await unfinishedTasks(client, unfinished))];
      const waiting = queue.depth + outbox.depth + index.behind + handoffs.length + messages + tasks.length;
      if (waiting === 0) return { ms, violations: [] };
      last = { queue, outbox, index, handoffs, messages, tasks };
      const state = [...handoffs, ...tasks].join("\n");
      if (state !== progress.state) progress = { state, atMs: ms };
    } catch (error) {
      last = String(error);
    }
    if (ms - progress.atMs > idleMs || ms > wholeMs) {
      const text = "the fleet does not become idle after all faults are undone";
      return {
        ms,
        violations: [
          { kind: "not_recovered", task: null, text, details: { after_ms: Math.round(ms), last } },
        ],
      };
    }
    await sleep(pollMs);
  }
}

/** Reads a list from its first page to its last. */
async function everyPage<P extends { readonly cursor?: string }>(
  read: (cursor: string | undefined) => Promise<P>,
): Promise<P[]> {
  const pages = [await read(undefined)];
  for (let { cursor } = pages[0]!; cursor !== undefined; cursor = pages.at(-1)!.cursor)
    pages.push(await read(cursor));
  return pages;
}

async function openHandoffs(client: FleetClient): Promise<string[]> {
  const limit = LIMITS.handoffs_limit_max;
  const pages = await everyPage((cursor) => client.handoffs({ limit, cursor }));
  const open = pages.flatMap(({ handoffs }) => handoffs.filter(({ state }) => isOpenHandoff(state)));
  return open.map(({ handoff_id, state }) => `${state} ${handoff_id}`);
}

/** Any task can be in recovery: the agent that took it from another one may have been killed. Between two attempts it has no handoff. */
async function openRecoveries(client: FleetClient): Promise<string[]> {
  const open: string[] = [];
  for (const state of OPEN_RECOVERIES) {
    const limit = LIMITS.recoveries_limit_max;
    const pages = await everyPage((cursor) => client.admin.recoveries({ state, limit, cursor }));
    for (const { task_id, recovery } of pages.flatMap(({ tasks }) => tasks))
      open.push(`${task_id} ${state} ${recovery?.failures} ${recovery?.attempts}`);
  }
  return open;
}

/** Describes the tasks on which workers or watchdogs still have to act, and removes the ended ones from `names`. */
async function unfinishedTasks(client: FleetClient, names: Set<string>): Promise<string[]> {
  const found: string[] = [];
  for (const name of names) {
    const task = await client.getTask(name);
    if (task === null || hasEnded(task)) names.delete(name);
    else found.push(`${name} ${task.state} ${task.recovery?.state ?? "idle"} ${task.owner}`);
  }
  return found;
}

/** Counts the events and exit reports that coordinators and watchdogs have not processed; they may cause alerts and recoveries. */
async function pendingMessages(connection: NatsConnection): Promise<number> {
  const manager = await jetstreamManager(connection);
  let waiting = 0;
  for (const stream of [STREAMS.events, STREAMS.exits]) {
    for await (const { config, num_pending, num_ack_pending } of manager.consumers.list(stream))
      if (config.durable_name !== undefined) waiting += num_pending + num_ack_pending;
  }
  return waiting;
}

async function resolveAll(bus: Bus, folders: RoundFolders, name: string): Promise<Record<string, number>> {
  const history = new HistoryWriter(join(folders.history, `${name}.jsonl`));
  const counts = await resolveOpen(bus, pairedHistory(readHistory(folders.history)), { history, name });
  await history.close();
  return counts;
}

/** Sends every command with an unknown outcome again until its outcome is known. `name` is of the calls. */
export async function resolveOpen(
  bus: Bus,
  { attempts, sent }: Pick<History, "attempts" | "sent">,
  { history, name }: { readonly history: HistorySink; readonly name: string },
): Promise<Record<string, number>> {
  const open = new Set(
    attempts.flatMap(({ outcome, command_id }) =>
      outcome === "unknown" && command_id !== undefined ? [command_id] : [],
    ),
  );
  for (const { outcome, command_id } of attempts) if (outcome === "committed") open.delete(command_id!);
  const waiting = [...open].flatMap((id) => sent.get(id) ?? []);
  const counts: Record<string, number> = {};
  let calls = 0;
  const resolve = async ({ subject, body }: { subject: string; body: string }): Promise<string> => {
    for (const end = performance.now() + RESOLVE_MS; ; ) {
      const call = `${name}/${++calls}`;
      const { outcome, code } = await sendCopy(bus, history, { call, copy: "resolving", subject, body });
      const isOpen = outcome === "unknown" || code === "UNAVAILABLE";
      if (!isOpen || performance.now() > end) return outcome;
      await sleep(200);
    }
  };
  const resolveSome = async (): Promise<void> => {
    for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
      const outcome = await resolve(one);
      counts[outcome] = (counts[outcome] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, resolveSome));
  return counts;
}
