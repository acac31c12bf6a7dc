/**
 * After the faults: everything is repaired, the fleet must come to rest by itself, and whatever is still open is asked once more, with
 * the same bytes, until it has an answer.
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
import { HistoryWriter, pairedHistory, readHistory } from "./agents/history.ts";
import type { Violation } from "./checker/evidence.ts";
import type { FaultFleet } from "./environment/fleet.ts";
import type { Zone } from "./environment/zone.ts";
import { hasEnded } from "./workers/tasks.ts";

const READY_MS = 30_000;
const ASKING_MS = 30_000;
const AT_ONCE = 16;

/** Undoes every fault, also those whose end got lost in a restart. */
export async function heal(fleet: FaultFleet, zone: Zone): Promise<void> {
  zone.free();
  fleet.nats.resume();
  for (const proxy of fleet.proxies.values()) proxy.set({ kind: "clear" });
  for (const one of [...fleet.services, ...fleet.agents, ...fleet.takers, ...fleet.workers]) one.resume();
  for (const one of fleet.services) one.send({ kind: "sound" });
  await fleet.nats.ready(READY_MS);
  await Promise.all(fleet.services.map((one) => one.ready(READY_MS)));
  // Who came up while a fault was being undone begins sound; who was up already may have missed the message while it was paused.
  for (const one of fleet.services) one.send({ kind: "sound" });
}

export interface Repair {
  readonly violations: readonly Violation[];
  /** Until nothing waited any more: no queued command, no event to publish, nothing to index. */
  readonly quietMs: number;
  /** Commands that were open at the end of the faults, and how they ended. */
  readonly resolved: Readonly<Record<string, number>>;
}

/** `stopTakers`: they and the workers go on until every handoff and every task has come to an end, also those that the resolving of open commands began. */
export async function recover(
  { fleet, zone, quietMs }: { readonly fleet: FaultFleet; readonly zone: Zone; readonly quietMs: number },
  stopTakers: () => Promise<void>,
): Promise<Repair> {
  const bus = await directBus(fleet);
  const connection = await connect({ servers: fleet.nats.url, timeout: 10_000 });
  try {
    let patienceMs = quietMs;
    const comeToRest = async (): Promise<Rest> => {
      const rest = await restOf(fleet, { bus, connection, quietMs: patienceMs });
      // What did not come to rest once is not waited for again.
      if (rest.violations.length > 0) patienceMs = 0;
      return rest;
    };
    const first = await comeToRest();
    const resolved = await resolveAll(bus, zone, "resolving");
    const second = await comeToRest();
    await stopTakers();
    // What the takers did meanwhile was answered: there should be nothing.
    const late = await resolveAll(bus, zone, "resolving-takers");
    const third = await comeToRest();
    return {
      violations: [...first.violations, ...second.violations, ...third.violations],
      quietMs: first.ms + second.ms + third.ms,
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

/** Past the proxies. */
function directBus(fleet: FaultFleet): Promise<Bus> {
  const log = createLogger({ service: "faults", level: "silent" });
  return connectBus({
    url: fleet.nats.url,
    name: "faults",
    identity: "faults",
    log,
    connectTimeoutMs: 10_000,
  });
}

interface Rest {
  readonly ms: number;
  readonly violations: readonly Violation[];
}

async function restOf(
  { started }: FaultFleet,
  {
    bus,
    connection,
    quietMs,
  }: { readonly bus: Bus; readonly connection: NatsConnection; readonly quietMs: number },
): Promise<Rest> {
  const client = clientOn(bus, "faults");
  const unfinished = new Set(started);
  const begin = performance.now();
  let last: unknown = null;
  for (;;) {
    const ms = performance.now() - begin;
    try {
      const { outbox, index } = await client.admin.status();
      const queue = await client.admin.queueStatus();
      const handoffs = await openHandoffs(client);
      const news = await newsWaiting(connection);
      const tasks = await unfinishedTasks(client, unfinished);
      const waiting = queue.depth + outbox.depth + index.behind + handoffs.length + news + tasks.length;
      if (waiting === 0) return { ms, violations: [] };
      last = { queue, outbox, index, handoffs, news, tasks };
    } catch (error) {
      last = String(error);
    }
    if (ms > quietMs) {
      const text = "with every fault undone, the fleet does not come to rest by itself";
      return {
        ms,
        violations: [
          { kind: "not_recovered", task: null, text, details: { after_ms: Math.round(ms), last } },
        ],
      };
    }
    await sleep(100);
  }
}

async function openHandoffs(client: FleetClient): Promise<string[]> {
  const open: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await client.handoffs({ limit: LIMITS.handoffs_limit_max, cursor });
    for (const { handoff_id, state } of page.handoffs)
      if (isOpenHandoff(state)) open.push(`${state} ${handoff_id}`);
    cursor = page.cursor;
    if (cursor === undefined) return open;
  }
}

/** Those that workers have to do something about, or the watchdogs; takes out those that have ended. */
async function unfinishedTasks(client: FleetClient, names: Set<string>): Promise<string[]> {
  const found: string[] = [];
  for (const name of names) {
    const task = await client.getTask(name);
    if (task === null || hasEnded(task)) names.delete(name);
    else found.push(`${name} ${task.state} ${task.recovery?.state ?? "idle"} ${task.owner}`);
  }
  return found;
}

/** Events and exit reports that coordinators and watchdogs have not seen to: alerts and recoveries come of them. */
async function newsWaiting(connection: NatsConnection): Promise<number> {
  const manager = await jetstreamManager(connection);
  let waiting = 0;
  for (const stream of [STREAMS.events, STREAMS.exits]) {
    for await (const { config, num_pending, num_ack_pending } of manager.consumers.list(stream))
      if (config.durable_name !== undefined) waiting += num_pending + num_ack_pending;
  }
  return waiting;
}

/** Sends every command without a definite answer again until it has one. */
async function resolveAll(bus: Bus, zone: Zone, name: string): Promise<Record<string, number>> {
  const { attempts, sent } = pairedHistory(readHistory(zone.history));
  const open = new Set(
    attempts.flatMap(({ outcome, command_id }) =>
      outcome === "unknown" && command_id !== undefined ? [command_id] : [],
    ),
  );
  for (const { outcome, command_id } of attempts) if (outcome === "committed") open.delete(command_id!);
  const waiting = [...open].flatMap((id) => sent.get(id) ?? []);
  const history = new HistoryWriter(join(zone.history, `${name}.jsonl`));
  const counts: Record<string, number> = {};
  let calls = 0;
  const resolve = async ({ subject, body }: { subject: string; body: string }): Promise<string> => {
    for (const end = performance.now() + ASKING_MS; ; ) {
      const call = `${name}/${++calls}`;
      const { outcome, code } = await sendCopy(bus, history, { call, copy: "resolving", subject, body });
      const isOpen = outcome === "unknown" || code === "UNAVAILABLE";
      if (!isOpen || performance.now() > end) return outcome;
      await sleep(200);
    }
  };
  const lane = async (): Promise<void> => {
    for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
      const outcome = await resolve(one);
      counts[outcome] = (counts[outcome] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  await history.close();
  return counts;
}
