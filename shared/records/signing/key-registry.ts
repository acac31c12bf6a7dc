/**
 * The registry of signing keys: one record for each key, which is never deleted. Each change is an act in the audit
 * chain of the default tenant, whose entries are signed too, and the record names the entries of its changes.
 */
import type { SigningKey } from "../../integrity/dsse.ts";
import { FleetError } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { KEY_PURPOSE, keyStateOf, type RevocationReason } from "../../protocol/signing-keys.ts";
import type { TenantAct } from "../../protocol/tenant-audit.ts";
import type { Tx } from "../../store/store.ts";
import type { AuditActor } from "../audit/audit.ts";
import { type AuditedAct, appendTenantAudit } from "../audit/tenant-audit.ts";
import { encodeChecked } from "../kv/codec.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { listSigningKeys, readSigningKey, requiredFromKey, type StoredSigningKey } from "./key-record.ts";

/** The beginning of all time: in a store that was new when its first key was added, every entry must be signed. */
const ALWAYS = new Date(0).toISOString();

export interface KeyChange {
  readonly actor: AuditActor;
  readonly nowMs: number;
}

/** The actor of changes that a service makes by itself. */
export function serviceActor(service: string): AuditActor {
  return { id: service, type: "service" };
}

/** Adds a key, unless it is registered. Throws INVALID when there are too many. */
export async function addSigningKey(
  tx: Tx,
  { id, publicKey }: SigningKey,
  { actor, nowMs, replaces }: KeyChange & { readonly replaces: string | null },
): Promise<void> {
  if ((await readSigningKey(tx, id)) !== null) return;
  const known = await listSigningKeys(tx);
  if (known.length >= LIMITS.signing_keys_max)
    throw new FleetError("INTERNAL", "the registry of signing keys is full", {
      details: { keys: known.length, max: LIMITS.signing_keys_max },
    });
  if (known.length === 0 && (await isNew(tx))) tx.set(requiredFromKey(), encodeChecked(ALWAYS));
  const not_before = new Date(nowMs - LIMITS.clock_skew_ms_max).toISOString();
  const subject = { key_id: id, owner: actor.id, not_before, ...(replaces !== null && { replaces }) };
  const seq = await audited(tx, "key_add", { actor, nowMs }, subject);
  const record: StoredSigningKey = {
    key_id: id,
    algorithm: "ed25519",
    public_key: publicKey,
    purpose: KEY_PURPOSE,
    owner: actor.id,
    not_before,
    not_after: null,
    revoked_at: null,
    revoked_reason: null,
    replaces,
    rotation_requested_at: null,
    entries: { key_add: seq },
  };
  write(tx, record);
}

/** Ends the use of a key for new signatures. */
export async function retireSigningKey(tx: Tx, id: string, { actor, nowMs }: KeyChange): Promise<void> {
  const record = await requireKey(tx, id);
  if (keyStateOf(record) !== "active") return;
  // Commits until now may have been signed by clocks ahead of this one. Later ones are refused in their transaction.
  const not_after = new Date(nowMs + LIMITS.clock_skew_ms_max).toISOString();
  const seq = await audited(tx, "key_retire", { actor, nowMs }, { key_id: id, not_after });
  write(tx, { ...record, not_after, entries: { ...record.entries, key_retire: seq } });
}

/** Requests that the holder of an active key goes over to a new one. */
export async function requestRotation(tx: Tx, id: string, { actor, nowMs }: KeyChange): Promise<void> {
  const record = await requireKey(tx, id);
  if (keyStateOf(record) !== "active" || record.rotation_requested_at !== null) return;
  await audited(tx, "key_rotate", { actor, nowMs }, { key_id: id });
  write(tx, { ...record, rotation_requested_at: new Date(nowMs).toISOString() });
}

export interface Revocation {
  readonly keyId: string;
  /** The time of the earliest suspected misuse; undefined: now. */
  readonly since: string | undefined;
  readonly reason: RevocationReason;
}

/**
 * Revokes a key at once for services, and from `since` on for verifications. An earlier time may replace a later one,
 * never the reverse.
 */
export async function revokeSigningKey(
  tx: Tx,
  { keyId, since, reason }: Revocation,
  { actor, nowMs }: KeyChange,
): Promise<StoredSigningKey> {
  const record = await requireKey(tx, keyId);
  const revokedAt = since ?? new Date(nowMs + LIMITS.clock_skew_ms_max).toISOString();
  if (record.revoked_at !== null && Date.parse(record.revoked_at) <= Date.parse(revokedAt)) return record;
  const subject = { key_id: keyId, revoked_at: revokedAt, reason };
  const seq = await audited(tx, "key_revoke", { actor, nowMs }, subject);
  const entries = { ...record.entries, key_revoke: seq };
  const revoked = { ...record, revoked_at: revokedAt, revoked_reason: reason, entries };
  write(tx, revoked);
  return revoked;
}

function write(tx: Tx, record: StoredSigningKey): void {
  tx.set(systemKeys.signingKey(record.key_id), encodeChecked(record));
}

async function requireKey(tx: Tx, id: string): Promise<StoredSigningKey> {
  const record = await readSigningKey(tx, id);
  if (record !== null) return record;
  throw new FleetError("NOT_FOUND", "there is no such signing key", { details: { key_id: id } });
}

async function audited(
  tx: Tx,
  action: TenantAct,
  { actor, nowMs }: KeyChange,
  subject: AuditedAct["subject"],
): Promise<number> {
  const at = new Date(nowMs).toISOString();
  return (await appendTenantAudit(tx, DEFAULT_TENANT, [{ action, actor, at, subject }]))!.seq;
}

async function isNew(tx: Tx): Promise<boolean> {
  const [chain, tasks] = await tx.getMany([
    tenantKeys(DEFAULT_TENANT).tenantChain(),
    systemKeys.count("tasks"),
  ]);
  return chain === undefined && tasks === undefined;
}
