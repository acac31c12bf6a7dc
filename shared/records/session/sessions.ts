/**
 * The sessions of agents, one record each. Every event of a session is one transaction, so that the state survives any
 * restart and no event is lost between two services.
 */
import { createHash } from "node:crypto";
import { isShredding } from "../../lifecycle/retention/shred-rules.ts";
import { NO_ACTIVITY } from "../../lifecycle/session/activity.ts";
import { applyTurnEvent } from "../../lifecycle/session/turn.ts";
import { invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { AgentSession, TurnEvent, TurnResult } from "../../protocol/turns.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, readable } from "../kv/codec.ts";
import { parseSessionExpiry } from "../kv/due-index.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import { decodeSoundHead } from "../task/head.ts";

const DAY_MS = 86_400_000;

export interface SessionAddress {
  readonly tenant: string;
  readonly agent: string;
}

export class Sessions {
  readonly #transactions: Transactions;
  readonly #now: () => number;

  constructor(parts: { readonly transactions: Transactions; readonly now: () => number }) {
    this.#transactions = parts.transactions;
    this.#now = parts.now;
  }

  /**
   * Records an event of a session of the agent, and decides what follows from it. Throws INVALID for an event of the future: every
   * event until then would be out of date, and the session would never be forgotten.
   */
  async turnEvent(of: SessionAddress, given: TurnEvent): Promise<TurnResult> {
    const nowMs = this.#now();
    const atMs = Date.parse(given.at);
    if (atMs > nowMs + LIMITS.id_ahead_ms_max)
      throw invalid("at", "a time that is not ahead of the fleet's clock", given.at);
    // The same moment has one form, because events are compared by their texts.
    const event = { ...given, at: new Date(atMs).toISOString() };
    const { value } = await this.#transactions.transact("turn_event", (tx) =>
      recordTurnEvent(tx, of, event, nowMs),
    );
    return value;
  }
}

/** The newest session in a folder. */
interface FolderSession {
  readonly agent: string;
  readonly session: string;
}

async function recordTurnEvent(
  tx: Tx,
  { tenant, agent }: SessionAddress,
  event: TurnEvent,
  nowMs: number,
): Promise<TurnResult> {
  const keys = tenantKeys(tenant);
  const key = keys.session(agent, event.session_id);
  const value = await tx.get(key);
  const before = value === undefined ? null : decodeChecked<AgentSession>(value);
  const previous =
    event.event === "session_start" ? await previousIn(tx, { tenant, agent }, event, before) : null;
  const turn = applyTurnEvent(before, agent, event);
  const { decision, save } = turn;
  const applied = await withoutShredded(tx, tenant, turn.session);
  const session = previous === null ? applied : { ...applied, previous_session: addressOf(previous) };
  if (before === null) await makeRoom(tx, { tenant, agent }, nowMs);
  else if (!isSameFolder(before, session)) await clearFolder(tx, tenant, before);
  tx.set(key, encodeChecked(session));
  indexSession(tx, tenant, before, session);
  // One entry for each day of a session. The sweep leaves a session with later events to its newest entry.
  tx.set(systemKeys.sessionExpiry(expiryDay(nowMs), tenant, agent, event.session_id), new Uint8Array(0));
  return { decision, save, session, previous };
}

/** A session that continues after its task was approved for shredding, or a late event, brings no content of the task back. */
async function withoutShredded(tx: Tx, tenant: string, session: AgentSession): Promise<AgentSession> {
  if (session.task_id === null) return session;
  // Its read conflict orders the event before the end of the shredding, which removes the session, or behind it.
  const value = await tx.get(tenantKeys(tenant).task(session.task_id));
  const head = value === undefined ? null : decodeSoundHead(value);
  return head !== null && isShredding(head) ? { ...session, activity: NO_ACTIVITY } : session;
}

/** An agent has a bounded number of sessions: its oldest one is forgotten for a new one. */
async function makeRoom(tx: Tx, { tenant, agent }: SessionAddress, nowMs: number): Promise<void> {
  const keys = tenantKeys(tenant);
  const { rows } = await tx.getRange(keys.sessionsOf(agent), { limit: LIMITS.session_count_max });
  if (rows.length < LIMITS.session_count_max) return;
  const known = rows.map(({ value }) => decodeChecked<AgentSession>(value));
  const oldest = known.reduce((a, b) => (b.last_event_at < a.last_event_at ? b : a));
  tx.clear(systemKeys.sessionExpiry(expiryDay(nowMs), tenant, agent, oldest.session_id));
  await forgetSession(tx, tenant, oldest);
}

/** Removes a session before its time. Its entries of the expiry are cleared when they are due. */
export async function forgetSession(tx: Tx, tenant: string, session: AgentSession): Promise<void> {
  tx.clear(tenantKeys(tenant).session(session.agent_id, session.session_id));
  indexSession(tx, tenant, session, null);
  await clearFolder(tx, tenant, session);
}

/** The sessions of a task, which its shredding removes. */
function indexSession(
  tx: Tx,
  tenant: string,
  before: AgentSession | null,
  session: AgentSession | null,
): void {
  const keys = tenantKeys(tenant);
  const [was, is] = [before?.task_id ?? null, session?.task_id ?? null];
  if (was === is) return;
  if (before !== null && was !== null) tx.clear(keys.taskSession(was, before.agent_id, before.session_id));
  if (session !== null && is !== null)
    tx.set(keys.taskSession(is, session.agent_id, session.session_id), new Uint8Array(0));
}

const isSameFolder = (a: AgentSession, b: AgentSession): boolean =>
  a.folder === b.folder && (a.machine ?? null) === (b.machine ?? null);

/** Clears the entry of the session's folder, unless a newer session has it. */
async function clearFolder(tx: Tx, tenant: string, session: AgentSession): Promise<void> {
  if (session.folder === null) return;
  const key = folderKey(tenant, session.folder, session.machine);
  const value = await tx.get(key);
  if (value === undefined) return;
  const newest = readable(() => decodeChecked<FolderSession>(value));
  // A damaged entry leads to no session.
  const isOwn = newest?.agent === session.agent_id && newest.session === session.session_id;
  if (newest === null || isOwn) tx.clear(key);
}

const expiryDay = (nowMs: number): number => Math.ceil((nowMs + LIMITS.session_kept_ms) / DAY_MS);

const addressOf = ({ agent_id, session_id }: AgentSession) => ({ agent_id, session_id });

async function previousIn(
  tx: Tx,
  { tenant, agent }: SessionAddress,
  { folder, machine, session_id }: TurnEvent,
  before: AgentSession | null,
): Promise<AgentSession | null> {
  if (folder === undefined) return null;
  const keys = tenantKeys(tenant);
  const key = folderKey(tenant, folder, machine);
  const value = await tx.get(key);
  const last = value === undefined ? undefined : decodeChecked<FolderSession>(value);
  tx.set(key, encodeChecked({ agent, session: session_id } satisfies FolderSession));
  if (last === undefined) return null;
  const isOwn = last.agent === agent && last.session === session_id;
  // A repeated begin of a session has the same answer.
  const of = isOwn ? before?.previous_session : { agent_id: last.agent, session_id: last.session };
  if (of == null) return null;
  const found = await tx.get(keys.session(of.agent_id, of.session_id));
  return found === undefined ? null : decodeChecked<AgentSession>(found);
}

/** Clears up to `limit` sessions without an event for a long time. `more`: there may be further ones. */
export async function clearExpiredSessions(
  tx: Tx,
  nowMs: number,
  limit: number,
): Promise<{ cleared: number; more: boolean }> {
  const { rows } = await tx.getRange(systemKeys.sessionsExpiredBefore(Math.floor(nowMs / DAY_MS)), { limit });
  const entries = rows.map(({ key }) => ({ key, ...parseSessionExpiry(key) }));
  const keys = entries.map(({ tenant, agent, session }) => tenantKeys(tenant).session(agent, session));
  const values = await tx.getMany(keys);
  for (const [i, { key, tenant }] of entries.entries()) {
    tx.clear(key);
    const value = values[i];
    const known = value === undefined ? undefined : decodeChecked<AgentSession>(value);
    if (known === undefined || !isExpired(known, nowMs)) continue;
    await forgetSession(tx, tenant, known);
  }
  return { cleared: rows.length, more: rows.length === limit };
}

function isExpired({ last_event_at }: AgentSession, nowMs: number): boolean {
  return Date.parse(last_event_at) + LIMITS.session_kept_ms <= nowMs;
}

/** Two machines, or two containers, have different folders of the same path. */
function folderKey(tenant: string, folder: string, machine: string | null | undefined): Bytes {
  const hash = createHash("sha256").update(JSON.stringify([machine ?? null, folder]));
  return tenantKeys(tenant).sessionFolder(hash.digest("hex"));
}
