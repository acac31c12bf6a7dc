/** The keys of missions. The table in `keyspace.ts` says what they hold. */
import type { Bytes, KeyRange } from "../../store/store.ts";
import { children, element, elementsOf, name, number } from "./key-elements.ts";

export const MISSION_SUBSPACES = [
  "missions",
  "active_missions",
  "sorties",
  "mission_locks",
  "agent_locks",
  "mission_messages",
] as const;
type MissionSubspace = (typeof MISSION_SUBSPACES)[number];

export function missionKeys(at: (subspace: MissionSubspace, ...parts: Buffer[]) => Buffer) {
  return {
    mission: (task: string): Bytes => at("missions", name(task)),
    missions: (): KeyRange => children(at("missions")),
    activeMission: (task: string): Bytes => at("active_missions", name(task)),
    activeMissions: (): KeyRange => children(at("active_missions")),
    sortie: (task: string, sortie: string): Bytes => at("sorties", name(task), element(sortie)),
    sorties: (task: string): KeyRange => children(at("sorties", name(task))),
    missionLocks: (task: string): Bytes => at("mission_locks", name(task)),
    mailbox: (task: string): Bytes => at("mission_messages", name(task), element("mailbox")),
    message: (task: string, place: number): Bytes =>
      at("mission_messages", name(task), element("message"), number(place)),
    messages: (task: string): KeyRange => children(at("mission_messages", name(task), element("message"))),
    messageBody: (task: string, place: number): Bytes =>
      at("mission_messages", name(task), element("body"), number(place)),
    /** The mailbox, its messages and their bodies. */
    mailboxRecords: (task: string): KeyRange => children(at("mission_messages", name(task))),
    agentLocks: (agent: string, task: string): Bytes => at("agent_locks", element(agent), name(task)),
    agentLocksOf: (agent: string): KeyRange => children(at("agent_locks", element(agent))),
    /** The rows of all missions of the tenant in one subspace. */
    missionRows: (subspace: MissionSubspace): KeyRange => children(at(subspace)),
  };
}

/** Reads the agent and the task out of an `agent_locks` key. */
export function parseAgentLock(key: Bytes): { agent: string; task: string } {
  const [agent, task] = elementsOf(key).slice(-2) as [string, string];
  return { agent, task };
}

/** Reads what the record is, and its place if it has one, out of a key of {@link missionKeys.mailboxRecords}. */
export function parseMailboxRecord(key: Bytes): { kind: string; place: number | null } {
  const parts = elementsOf(key);
  const last = parts.at(-1);
  return typeof last === "number"
    ? { kind: String(parts.at(-2)), place: last }
    : { kind: String(last), place: null };
}

/** Reads time, tenant, task and agent out of a `mission_due` key. */
export function parseMissionDue(key: Bytes): { dueMs: number; tenant: string; task: string; agent: string } {
  const [dueMs, tenant, task, agent] = elementsOf(key).slice(3);
  return { dueMs, tenant, task, agent } as ReturnType<typeof parseMissionDue>;
}
