/** The index of missions in which something ends by itself, and of the agents that hold files. */
import { type LockTable, lockAgents, lockDueMs } from "../../lifecycle/mission/locks.ts";
import { type MailboxRecord, mailboxDueMs } from "../../lifecycle/mission/mailbox.ts";
import type { Tx } from "../../store/store.ts";
import { systemKeys, type TenantKeys } from "../kv/keyspace.ts";

const NOTHING = new Uint8Array(0);
/** The time was set by the locks of the mission, and not by the failure of an agent. */
export const OF_MISSION = "";
/** The time was set by the messages of the mission. No agent has this name. */
export const OF_MESSAGES = "=messages";

/** null: the time was not set by the failure of an agent. */
export const lostAgent = (element: string): string | null =>
  element === OF_MISSION || element === OF_MESSAGES ? null : element;

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

export function indexMailbox(
  tx: Tx,
  { tenant, task }: { readonly tenant: string; readonly task: string },
  { before, after }: { readonly before: MailboxRecord; readonly after: MailboxRecord },
): void {
  const [earlier, due] = [mailboxDueMs(before), mailboxDueMs(after)];
  const at = (dueMs: number) => systemKeys.missionDue(dueMs, tenant, task, OF_MESSAGES);
  if (earlier !== null) tx.clear(at(earlier));
  if (due !== null) tx.set(at(due), NOTHING);
}
