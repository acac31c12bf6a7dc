/** The index of missions in which something ends by itself, and of the agents that hold files. */
import { type LockTable, lockAgents, lockDueMs } from "../../lifecycle/mission/locks.ts";
import type { Tx } from "../../store/store.ts";
import { systemKeys, type TenantKeys } from "../kv/keyspace.ts";

const NOTHING = new Uint8Array(0);
/** The time was set by the mission itself, and not by the failure of an agent. */
export const OF_MISSION = "";

export function indexLocks(
  tx: Tx,
  keys: TenantKeys,
  { tenant, task }: { readonly tenant: string; readonly task: string },
  { before, after }: { readonly before: LockTable; readonly after: LockTable },
): void {
  const [earlier, due] = [lockDueMs(before), lockDueMs(after)];
  const at = (dueMs: number) => systemKeys.missionDue(dueMs, tenant, task, OF_MISSION);
  if (earlier !== null) tx.clear(at(earlier));
  if (due !== null) tx.set(at(due), NOTHING);
  const [left, present] = [lockAgents(before), lockAgents(after)];
  for (const agent of left) if (!present.has(agent)) tx.clear(keys.agentLocks(agent, task));
  for (const agent of present) if (!left.has(agent)) tx.set(keys.agentLocks(agent, task), NOTHING);
}
