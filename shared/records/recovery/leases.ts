/**
 * Until when agents count as alive, as the watchdogs heard them: one row for each task that somebody owns and says so, under its fence.
 * Beside what a watchdog has heard itself this is the second witness: one that hears nothing any more finds here what others heard.
 */
import { type Policies, type Policy, policyOf } from "../../protocol/policy.ts";
import type { Task } from "../../protocol/task.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { decode, encode } from "../codec.ts";
import { after, parseAgentLease, systemKeys } from "../keyspace.ts";
import { isCredibleEnd } from "../lease.ts";

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

/** Of who promises to be heard: it is over already, and what its agent has just written is a sign of life for as long as any other. */
export function writePromise(tx: Tx, promise: Omit<AgentLease, "lapsesAt">, nowMs: number): void {
  writeLeases(tx, [{ ...promise, lapsesAt: nowMs }]);
}

/** Written blindly: of two watchdogs the later one wins, and both heard the agent. */
export function writeLeases(tx: Tx, leases: readonly AgentLease[]): void {
  for (const { tenant, task, fence, agentId, agentType, lapsesAt } of leases) {
    tx.set(systemKeys.agentLease(tenant, task, fence), encode([agentId, agentType, lapsesAt] satisfies Row));
  }
}

export type LeaseKey = Pick<AgentLease, "tenant" | "task" | "fence">;

export function clearLease(tx: Tx, { tenant, task, fence }: LeaseKey): void {
  tx.clear(systemKeys.agentLease(tenant, task, fence));
}

export async function readLease(
  reader: Reader,
  { tenant, task, fence }: LeaseKey,
): Promise<AgentLease | null> {
  const value = await reader.get(systemKeys.agentLease(tenant, task, fence));
  return value === undefined ? null : leaseOf({ tenant, task, fence }, value);
}

/** Until when the agent of a task counts as alive, as far as the store knows: by its lease, or by whatever was last written, and as long as silence is allowed. */
export function aliveUntil(
  { updated_at }: Pick<Task, "updated_at">,
  lease: Pick<AgentLease, "lapsesAt"> | null,
  { silence_ms: silenceMs }: Pick<Policy["recovery"], "silence_ms">,
  nowMs: number,
): number {
  const ends = [lease?.lapsesAt ?? 0, Date.parse(updated_at) + silenceMs];
  return Math.max(0, ...ends.filter((ms) => isCredibleEnd(ms, { nowMs, leaseMs: silenceMs })));
}

/** By the lease of the task's owner, and the policy for agents of its type; 0: nobody owns it. */
export async function ownerAliveUntil(
  reader: Reader,
  head: Task,
  policies: Policies,
  nowMs: number,
): Promise<number> {
  const { tenant, task_id: task, owner, fence } = head;
  if (owner === null) return 0;
  const lease = await readLease(reader, { tenant, task, fence });
  const { recovery } = policyOf(policies, tenant, lease?.agentType ?? head.agent_type ?? "");
  return aliveUntil(head, lease, recovery, nowMs);
}

/** Those behind `last`, in the order of their keys. */
export async function readLeases(
  reader: Reader,
  last: LeaseKey | null,
  limit: number,
): Promise<{ leases: AgentLease[]; more: boolean }> {
  const all = systemKeys.agentLeases();
  const begin = last === null ? all.begin : after(systemKeys.agentLease(last.tenant, last.task, last.fence));
  const { rows, more } = await reader.getRange({ begin, end: all.end }, { limit });
  return { leases: rows.map(({ key, value }) => leaseOf(parseAgentLease(key), value)), more };
}

function leaseOf(key: LeaseKey, value: Uint8Array): AgentLease {
  const [agentId, agentType, lapsesAt] = decode<Row>(value);
  return { ...key, agentId, agentType, lapsesAt };
}
