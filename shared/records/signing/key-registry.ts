/**
 * The registry of signing keys: one record for each key, which is never deleted. Each change is an act in the audit
 * chain of the default tenant, whose entries are signed too, and the record names the entries of its changes.
 */
import type { SigningKey } from "../../integrity/dsse.ts";
import { FleetError } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import {
  countsAtOnce,
  hasBegun,
  KEY_PURPOSE,
  REQUIRED,
  type RevocationReason,
  strongerReason,
} from "../../protocol/signing-keys.ts";
import type { TenantAct } from "../../protocol/tenant-audit.ts";
import type { Reader, Tx } from "../../store/store.ts";
import type { AuditActor } from "../audit/audit.ts";
import { type AuditedAct, appendTenantAudit } from "../audit/tenant-audit.ts";
import { decode, encodeChecked } from "../kv/codec.ts";
import type { Format } from "../kv/format.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { signedBy } from "./commit-signing.ts";
import { keySubject } from "./key-facts.ts";
import {
  findSigningKey,
  isKeyInUse,
  listSigningKeys,
  type StoredSigningKey,
  signaturesRequiredKey,
} from "./key-record.ts";
import { revocationMs } from "./revocation-time.ts";

export interface KeyChange {
  readonly actor: AuditActor;
  readonly nowMs: number;
}

/** The actor of changes that a service makes by itself. */
export function serviceActor(service: string): AuditActor {
  return { id: service, type: "service" };
}

/** Adds a key, unless it is registered. Throws INTERNAL when there are too many. */
export async function addSigningKey(
  tx: Tx,
  { id, publicKey }: SigningKey,
  { actor, nowMs, replaces }: KeyChange & { readonly replaces: string | null },
): Promise<void> {
  if ((await tx.get(systemKeys.signingKey(id))) !== undefined) return;
  const known = await listSigningKeys(tx);
  if (known.length >= LIMITS.signing_keys_max)
    throw new FleetError("INTERNAL", "the registry of signing keys is full", {
      details: { keys: known.length, max: LIMITS.signing_keys_max },
    });
  const isFirst = await isNew(tx);
  const key = {
    key_id: id,
    algorithm: "ed25519",
    public_key: publicKey,
    purpose: KEY_PURPOSE,
    owner: actor.id,
    not_before: new Date(nowMs - LIMITS.clock_skew_ms_max).toISOString(),
    not_after: null,
    revoked_at: null,
    revoked_reason: null,
    replaces,
    rotation_requested_at: null,
  } as const;
  const subject = { ...keySubject("key_add", key), ...(isFirst && { signatures: REQUIRED }) };
  const seq = await audited(tx, "key_add", { actor, nowMs }, subject);
  if (isFirst) tx.set(signaturesRequiredKey(), encodeChecked(seq));
  write(tx, { ...key, entries: { key_add: seq } });
}

export interface Succession {
  /** The id of the key that is replaced. */
  readonly before: string;
  /** The successor, unless there is one. */
  readonly next: SigningKey;
  /** Whether the caller has this private key. */
  readonly isHeld: (id: string) => boolean;
}

/**
 * Adds the successor of a key, unless another process with the same files has added one. Returns the id of the successor: all processes that share the
 * files of a key agree in the store on the next one.
 */
export async function addSuccessor(
  tx: Tx,
  { before, next, isHeld }: Succession,
  change: KeyChange,
): Promise<string> {
  const successor = await findSuccessor(tx, { before, isHeld, nowMs: change.nowMs });
  if (successor !== null) return successor;
  await addSigningKey(tx, next, { ...change, replaces: before });
  return next.id;
}

/** The id of a successor that is in use and has begun; null: there is none whose private key the caller has. */
export async function findSuccessor(
  reader: Reader,
  { before, isHeld, nowMs }: Pick<Succession, "before" | "isHeld"> & Pick<KeyChange, "nowMs">,
): Promise<string | null> {
  const successor = (await listSigningKeys(reader)).find(
    (key) => key.replaces === before && isKeyInUse(key) && hasBegun(key, nowMs) && isHeld(key.key_id),
  );
  return successor?.key_id ?? null;
}

/**
 * Ends the use of a key whose holder has not done it, in a transaction before that of its revocation. So the revocation has a time after the last
 * commit with the key: one that is in flight is either committed before this, or made again with another key. Does nothing where the revocation has an
 * earlier time anyway, or an allowance.
 */
export async function endUseBefore(
  tx: Tx,
  { keyId, since, reason }: Revocation,
  change: KeyChange,
): Promise<void> {
  const record = await requireKey(tx, keyId);
  if (since !== undefined || !countsAtOnce(reason) || !isKeyInUse(record)) return;
  requireOther(tx, record);
  await retireSigningKey(tx, keyId, change);
}

/** Ends the use of a key for new signatures, at `endMs`, which may be after the time of this change. */
export async function retireSigningKey(
  tx: Tx,
  id: string,
  { actor, nowMs, endMs = nowMs }: KeyChange & { readonly endMs?: number },
): Promise<void> {
  const record = await requireKey(tx, id);
  if (!isKeyInUse(record)) return;
  // Commits until now may have been signed by clocks ahead of this one. Later ones are refused in their transaction.
  const not_after = new Date(endMs + LIMITS.clock_skew_ms_max).toISOString();
  const retired = { ...record, not_after };
  const seq = await audited(tx, "key_retire", { actor, nowMs }, keySubject("key_retire", retired));
  write(tx, { ...retired, entries: { ...record.entries, key_retire: seq } });
}

/** Requests that the holder of an active key goes over to a new one. */
export async function requestRotation(tx: Tx, id: string, { actor, nowMs }: KeyChange): Promise<void> {
  const record = await requireKey(tx, id);
  if (!isKeyInUse(record) || record.rotation_requested_at !== null) return;
  const requested = { ...record, rotation_requested_at: new Date(nowMs).toISOString() };
  const seq = await audited(tx, "key_rotate", { actor, nowMs }, keySubject("key_rotate", requested));
  write(tx, { ...requested, entries: { ...record.entries, key_rotate: seq } });
}

export interface Revocation {
  readonly keyId: string;
  /** The time of the earliest suspected misuse; undefined: now. */
  readonly since: string | undefined;
  readonly reason: RevocationReason;
}

/**
 * Revokes a key at once for services, and for verifications from `since` on, or from the time that {@link revocationMs} says. A later revocation may state an
 * earlier time, a stronger reason, or both, each as its own entry. What would be weaker stays as it is, so no signature becomes valid again. Returns the
 * record as it stands then, without a new entry if nothing changes.
 */
export async function revokeSigningKey(
  tx: Tx,
  { keyId, since, reason }: Revocation,
  { actor, nowMs }: KeyChange,
): Promise<StoredSigningKey> {
  const record = await requireKey(tx, keyId);
  requireOther(tx, record);
  const { atMs, revokedMs } = await revocationMs(tx, record, { reason, nowMs });
  const wantedAt = since ?? new Date(revokedMs).toISOString();
  const { revoked_at: knownAt, revoked_reason: knownReason } = record;
  const isEarlier = knownAt === null || Date.parse(wantedAt) < Date.parse(knownAt);
  const revoked = {
    ...record,
    revoked_at: isEarlier ? wantedAt : knownAt,
    revoked_reason: strongerReason(reason, knownReason),
  };
  if (!isEarlier && revoked.revoked_reason === knownReason) return record;
  const subject = keySubject("key_revoke", revoked);
  const seq = await audited(tx, "key_revoke", { actor, nowMs: atMs }, subject);
  const { key_revoke: before, key_revoke_first: first = before } = record.entries;
  const entries = {
    ...record.entries,
    key_revoke: seq,
    ...(first !== undefined && { key_revoke_first: first }),
  };
  write(tx, { ...revoked, entries });
  return { ...revoked, entries };
}

/** A key that is no longer in use is replaced, and the transaction repeated. */
function requireOther(tx: Tx, record: StoredSigningKey): void {
  const { key_id: keyId } = record;
  if (signedBy(tx).signed_by === keyId && isKeyInUse(record))
    throw new FleetError(
      "UNAVAILABLE",
      "the service signs with this key itself, and has not replaced it yet",
      {
        details: {
          key_id: keyId,
          setting: "FLEET_SIGNING_KEY",
          next: "repeat; if the log says that the key cannot be replaced, first replace its file",
        },
      },
    );
}

function write(tx: Tx, record: StoredSigningKey): void {
  tx.set(systemKeys.signingKey(record.key_id), encodeChecked(record));
}

async function requireKey(tx: Tx, id: string): Promise<StoredSigningKey> {
  const record = await findSigningKey(tx, id);
  if (record !== null) return record;
  throw new FleetError("NOT_FOUND", "there is no such signing key", { details: { key_id: id } });
}

/** An unsigned change of a key would prove nothing, and is a finding of every verification. */
async function audited(
  tx: Tx,
  action: TenantAct,
  { actor, nowMs }: KeyChange,
  subject: AuditedAct["subject"],
): Promise<number> {
  if (signedBy(tx).signed_by === undefined)
    throw new FleetError(
      "CONFLICT",
      "the service that answers has no signing key, and cannot sign this change",
      {
        details: { setting: "FLEET_SIGNING_KEY" },
      },
    );
  const at = new Date(nowMs).toISOString();
  return (await appendTenantAudit(tx, DEFAULT_TENANT, [{ action, actor, at, subject }]))!.seq;
}

/**
 * Whether nothing was ever audited in the store. One that an older version has begun is not new: its services may still run and write without signatures
 * while those of this version replace them.
 */
async function isNew(tx: Tx): Promise<boolean> {
  const [format, chain, tasks] = await tx.getMany([
    systemKeys.meta("format"),
    tenantKeys(DEFAULT_TENANT).tenantChain(),
    systemKeys.count("tasks"),
  ]);
  if (format === undefined || decode<Format>(format).created_at === undefined) return false;
  return chain === undefined && tasks === undefined && (await tenantAfter(tx, DEFAULT_TENANT)) === null;
}
