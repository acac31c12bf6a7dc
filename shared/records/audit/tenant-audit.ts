/**
 * The audit chain of a tenant: one entry for each act of an operator that concerns no task's state, written in
 * the same transaction and chained by hash to the previous entry. Entries hold identifiers, never text.
 */
import { canonicalText } from "../../integrity/canonical.ts";
import { CHAIN_START, entryHash } from "../../integrity/chain.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { AuditRecord, TenantAct, TenantAuditPage } from "../../protocol/tenant-audit.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { decode, decodeChecked, encode, encodeChecked } from "../kv/codec.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import { readEntry } from "../scrub/trail/entries.ts";
import { noteEntry, noteTime, signedBy } from "../signing/commit-signing.ts";
import { readEnvelopes } from "../signing/stored-signatures.ts";
import { type AuditActor, type ChainHead, principalActor } from "./audit.ts";
import { markLogDue } from "./log-due.ts";

/** The version of the entries' layout. */
const TENANT_AUDIT_VERSION = 1;

/** The principal that acts, as the subject of its request proves. */
export interface TenantCaller {
  readonly tenant: string;
  readonly caller: string;
}

export interface AuditedAct {
  readonly tenant: string;
  readonly actor: AuditActor;
  readonly action: TenantAct;
  readonly at: string;
  /** The ids of the things that the act concerns. */
  readonly subject: Readonly<Record<string, string | number>>;
}

/** An act of the caller at this time. */
export function actOf(
  { tenant, caller }: TenantCaller,
  action: TenantAct,
  nowMs: number,
  subject: AuditedAct["subject"],
): AuditedAct {
  return { tenant, actor: principalActor(caller), action, at: new Date(nowMs).toISOString(), subject };
}

/**
 * Appends acts to the chain of their tenant. A transaction that carries out an act appends its entry only if
 * the act has an effect, so a repeated transaction adds none. Throws CORRUPT, and refuses the act, if the head
 * is damaged or behind its entries: otherwise the new entry would hide the damage. Returns the new head; null:
 * there were no acts.
 */
export async function appendTenantAudit(
  tx: Tx,
  tenant: string,
  acts: readonly Omit<AuditedAct, "tenant">[],
): Promise<ChainHead | null> {
  if (acts.length === 0) return null;
  const keys = tenantKeys(tenant);
  let head = await readTenantHead(tx, tenant);
  const [last, next] = await tx.getMany([head?.seq ?? 0, (head?.seq ?? 0) + 1].map(keys.tenantAudit));
  if (next !== undefined) {
    throw new FleetError("CORRUPT", "the tenant's audit chain is longer than its head says", {
      details: { tenant },
    });
  }
  noteTime(tx, String(readEntry(last)?.facts?.at));
  for (const { action, actor, at, subject } of acts) {
    const seq: number = (head?.seq ?? 0) + 1;
    const prev: string = head?.hash ?? CHAIN_START;
    // In the order of their names, so that the canonical form needs no sorting.
    const facts = { action, actor, at, prev, seq, ...signedBy(tx), subject, tenant };
    const entry = canonicalText({ ...facts, v: TENANT_AUDIT_VERSION });
    tx.set(keys.tenantAudit(seq), encode(entry));
    head = { seq, hash: entryHash(entry) };
    noteEntry(tx, { tenant, task: null, ...head, at, checkpoint: null });
    // The entry of a revocation follows the clock of the holder of the key.
    noteTime(tx, at);
  }
  tx.set(keys.tenantChain(), encodeChecked(head));
  // The feed has transitions of tasks only.
  if (head !== null) markLogDue(tx, tenant, head.seq);
  return head;
}

/** Carries out an act in a transaction, and audits it if it returns true: it has an effect. */
export async function actAudited(
  transactions: Transactions,
  action: TenantAct,
  { by, nowMs }: { readonly by: TenantCaller; readonly nowMs: number },
  act: (tx: Tx) => Promise<boolean>,
): Promise<void> {
  const entry = actOf(by, action, nowMs, {});
  await transactions.transact(action, async (tx) => {
    if (await act(tx)) await appendTenantAudit(tx, by.tenant, [entry]);
  });
}

/** null: the tenant has no entry. Throws for a damaged head. */
async function readTenantHead(reader: Reader, tenant: string): Promise<ChainHead | null> {
  const value = await reader.get(tenantKeys(tenant).tenantChain());
  return value === undefined ? null : decodeChecked<ChainHead>(value);
}

/** At most `limit` entries from `fromSeq`, in order, with the head from the same snapshot. */
export async function readTenantAudit(
  reader: Reader,
  tenant: string,
  { from_seq, limit, signatures }: QueryParams<"tenant_audit">,
): Promise<TenantAuditPage> {
  const keys = tenantKeys(tenant);
  const { end } = keys.tenantAudits();
  const head = await readTenantHead(reader, tenant);
  const { rows, more } = await reader.getRange({ begin: keys.tenantAudit(from_seq), end }, { limit });
  // The seq comes from the key, so that a verifier sees a missing entry as a gap.
  const entries = rows.map(({ key, value }): AuditRecord => {
    const entry = decode<string>(value);
    return { seq: parseSeq(key), entry, hash: entryHash(entry) };
  });
  const part = { task: null, from: from_seq, count: entries.length };
  return { head, entries, more, ...(signatures && { signatures: await readEnvelopes(reader, keys, part) }) };
}
