/**
 * The sessions of agents, one record each. Every event of a session is one transaction, so that the state survives any
 * restart and no event is lost between two services.
 */
import { createHash } from "node:crypto";
import { applyTurnEvent } from "../../lifecycle/session/turn.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { AgentSession, TurnEvent, TurnResult } from "../../protocol/turns.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked } from "../kv/codec.ts";
import { parseSessionExpiry, systemKeys, tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";

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

  /** Records an event of a session of the agent, and decides what follows from it. */
  async turnEvent(of: SessionAddress, event: TurnEvent): Promise<TurnResult> {
    const nowMs = this.#now();
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
  const previous = event.event === "session_start" ? await previousIn(tx, tenant, agent, event) : null;
  const { session, decision, save } = applyTurnEvent(before, agent, event);
  tx.set(key, encodeChecked(session));
  // One entry for each day of a session. The sweep leaves a session with later events to its newest entry.
  tx.set(systemKeys.sessionExpiry(expiryDay(nowMs), tenant, agent, event.session_id), new Uint8Array(0));
  return { decision, save, session, previous };
}

const expiryDay = (nowMs: number): number => Math.ceil((nowMs + LIMITS.session_kept_ms) / DAY_MS);

async function previousIn(
  tx: Tx,
  tenant: string,
  agent: string,
  { folder, session_id }: TurnEvent,
): Promise<AgentSession | null> {
  if (folder === undefined) return null;
  const keys = tenantKeys(tenant);
  const key = folderKey(tenant, folder);
  const value = await tx.get(key);
  const last = value === undefined ? undefined : decodeChecked<FolderSession>(value);
  tx.set(key, encodeChecked({ agent, session: session_id } satisfies FolderSession));
  if (last === undefined || (last.agent === agent && last.session === session_id)) return null;
  const found = await tx.get(keys.session(last.agent, last.session));
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
  for (const [i, { key, tenant, agent, session }] of entries.entries()) {
    tx.clear(key);
    const value = values[i];
    const known = value === undefined ? undefined : decodeChecked<AgentSession>(value);
    if (known === undefined || !isExpired(known, nowMs)) continue;
    tx.clear(keys[i]!);
    if (known.folder === null) continue;
    const folder = folderKey(tenant, known.folder);
    const last = await tx.get(folder);
    if (last === undefined) continue;
    const newest = decodeChecked<FolderSession>(last);
    if (newest.agent === agent && newest.session === session) tx.clear(folder);
  }
  return { cleared: rows.length, more: rows.length === limit };
}

function isExpired({ last_event_at }: AgentSession, nowMs: number): boolean {
  return Date.parse(last_event_at) + LIMITS.session_kept_ms <= nowMs;
}

function folderKey(tenant: string, folder: string): Bytes {
  return tenantKeys(tenant).sessionFolder(createHash("sha256").update(folder).digest("hex"));
}
