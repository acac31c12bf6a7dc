/**
 * The leases of agents: the times until which they count as alive, by their heartbeats. There is one row for
 * each task whose owner sends heartbeats, under its fence. A watchdog that receives no heartbeats any more
 * learns here which agents other watchdogs have heard.
 */

import type { TaskRecord } from "../../lifecycle/task.ts";
import { type Policies, type Policy, policyOf } from "../../protocol/policy.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import { after, parseAgentLease, systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { isCredibleEnd } from "../leader/lease.ts";
import { decodeSoundHead } from "../task/head.ts";

export interface AgentLease {
  readonly tenant: string;
  readonly task: string;
  readonly fence: number;
  readonly agentId: string;
  readonly agentType: string;
  /** By the clock of the watchdog that wrote it, in milliseconds since the epoch. */
  readonly lapsesAt: number;
}

type Row = [agentId: string, agentType: string, lapsesAt: number];

/**
 * The lease of an agent that will send heartbeats. It has already expired: until the first one, the agent's
 * writes keep it alive.
 */
export function promiseHeartbeats(tx: Tx, promise: Omit<AgentLease, "lapsesAt">, nowMs: number): void {
  writeLeases(tx, [{ ...promise, lapsesAt: nowMs }]);
}

/** Writes without a read: of two watchdogs the later one wins, which is fine, as both heard the agent. */
export function writeLeases(tx: Tx, leases: readonly AgentLease[]): void {
  for (const { tenant, task, fence, agentId, agentType, lapsesAt } of leases) {
    const row: Row = [agentId, agentType, lapsesAt];
    tx.set(systemKeys.agentLease(tenant, task, fence), encodeChecked(row));
  }
}

export type LeaseKey = Pick<AgentLease, "tenant" | "task" | "fence">;

export function clearLease(tx: Tx, { tenant, task, fence }: LeaseKey): void {
  tx.clear(systemKeys.agentLease(tenant, task, fence));
}

/** null: there is none, or it is damaged; the last write of the agent still counts. */
export async function readLease(
  reader: Reader,
  { tenant, task, fence }: LeaseKey,
): Promise<AgentLease | null> {
  const value = await reader.get(systemKeys.agentLease(tenant, task, fence));
  return value === undefined ? null : leaseOf({ tenant, task, fence }, value);
}

/**
 * The time until which the owner of a task counts as alive by the records of the store: its lease, or the
 * last write and the allowed silence.
 */
export function aliveUntil(
  { updated_at }: Pick<TaskRecord, "updated_at">,
  lease: Pick<AgentLease, "lapsesAt"> | null,
  { silence_ms: silenceMs }: Pick<Policy["recovery"], "silence_ms">,
  nowMs: number,
): number {
  const ends = [lease?.lapsesAt ?? 0, Date.parse(updated_at) + silenceMs];
  return Math.max(0, ...ends.filter((ms) => isCredibleEnd(ms, { nowMs, leaseMs: silenceMs })));
}

/** The same, with the lease of the owner and the policy for agents of its type; 0: the task has no owner. */
export async function ownerAliveUntil(
  reader: Reader,
  head: TaskRecord,
  policies: Policies,
  nowMs: number,
): Promise<number> {
  const { tenant, task_id: task, owner, fence } = head;
  if (owner === null) return 0;
  const lease = await readLease(reader, { tenant, task, fence });
  const { recovery } = policyOf(policies, tenant, lease?.agentType ?? head.agent_type ?? "");
  return aliveUntil(head, lease, recovery, nowMs);
}

export interface LeasePage {
  readonly leases: readonly AgentLease[];
  /** The last key of the page; null: there are no further leases. */
  readonly last: LeaseKey | null;
}

/** The leases after `last`, in the order of their keys. A damaged lease does not hide the others. */
export async function readLeases(reader: Reader, last: LeaseKey | null, limit: number): Promise<LeasePage> {
  const all = systemKeys.agentLeases();
  const begin = last === null ? all.begin : after(systemKeys.agentLease(last.tenant, last.task, last.fence));
  const { rows, more } = await reader.getRange({ begin, end: all.end }, { limit });
  const leases: AgentLease[] = [];
  for (const { key, value } of rows) {
    const place = parseAgentLease(key);
    const lease = leaseOf(place, value) ?? (await leaseOfOwner(reader, place));
    if (lease !== null) leases.push(lease);
  }
  const end = rows.at(-1);
  return { leases, last: more && end !== undefined ? parseAgentLease(end.key) : null };
}

/** null: the row is damaged. */
function leaseOf(key: LeaseKey, value: Uint8Array): AgentLease | null {
  try {
    const [agentId, agentType, lapsesAt] = decodeChecked<Row>(value);
    return { ...key, agentId, agentType, lapsesAt };
  } catch (error) {
    if (error instanceof UnreadableValue) return null;
    throw error;
  }
}

/**
 * The lease of a task's owner in place of a damaged one: heartbeats are expected, and the lease has already
 * expired.
 */
async function leaseOfOwner(reader: Reader, key: LeaseKey): Promise<AgentLease | null> {
  const value = await reader.get(tenantKeys(key.tenant).task(key.task));
  const head = value === undefined ? null : decodeSoundHead(value);
  if (head === null || head.owner === null || head.fence !== key.fence) return null;
  const { owner: agentId, agent_type, updated_at } = head;
  return { ...key, agentId, agentType: agent_type ?? "", lapsesAt: Date.parse(updated_at) };
}
