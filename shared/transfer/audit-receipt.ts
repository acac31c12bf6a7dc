/**
 * Verifies the receipt of an audit entry, and that a log continues an earlier checkpoint, with public keys alone. All of
 * it comes from outside, so each fault is an answer.
 */
import { keyIdOf } from "../integrity/dsse.ts";
import { leafHash } from "../integrity/merkle/hashes.ts";
import { exactBase64, openCheckpoint, type SignedCheckpoint } from "../integrity/merkle/note.ts";
import { isConsistent, isIncluded } from "../integrity/merkle/proofs.ts";
import { type AuditLogState, type AuditProof, auditProofSchema, logOrigin } from "../protocol/audit-log.ts";

export interface JudgedReceipt {
  /** null: the log has the entry. */
  readonly problem: string | null;
  /** null: the receipt cannot be read, or its checkpoint is not signed with its key. */
  readonly receipt: AuditProof | null;
  readonly key_id: string | null;
  /** The entries of the log at its checkpoint. */
  readonly size: number | null;
}

const refused = (problem: string): JudgedReceipt => ({ problem, receipt: null, key_id: null, size: null });

/** `keyIds`: of the keys that the verifier trusts. Empty: any, and the caller compares `key_id`. */
export function judgeReceipt(value: unknown, keyIds: readonly string[]): JudgedReceipt {
  const parsed = auditProofSchema.safeParse(value);
  if (!parsed.success) return refused("it is not a receipt of an audit entry");
  const receipt = parsed.data;
  const signed = openCheckpoint(receipt.checkpoint, [receipt.public_key]);
  if (signed === null) return refused("its checkpoint is not signed with its key");
  const known = { receipt, key_id: keyIdOf(receipt.public_key), size: signed.checkpoint.size };
  return { ...known, problem: problemOf(receipt, signed, keyIds, known.key_id) };
}

function problemOf(
  { tenant, task_id, seq, entry, index, proof }: AuditProof,
  { checkpoint }: SignedCheckpoint,
  keyIds: readonly string[],
  keyId: string,
): string | null {
  if (keyIds.length > 0 && !keyIds.includes(keyId)) return "its checkpoint is signed with another key";
  if (checkpoint.origin !== logOrigin(tenant)) return "its checkpoint is of another log";
  const facts = factsIn(entry);
  if (facts?.tenant !== tenant || (facts.task ?? null) !== task_id || facts.seq !== seq)
    return "its entry is that of another place";
  const hashes = proof.map(exactBase64);
  if (!hashes.every((hash) => hash !== null)) return "its proof cannot be read";
  if (!isIncluded({ index, hash: leafHash(entry) }, checkpoint, hashes))
    return "the log of its checkpoint does not have this entry at this place";
  return null;
}

function factsIn(
  entry: string,
): { readonly tenant?: unknown; readonly task?: unknown; readonly seq?: unknown } | null {
  try {
    const facts: unknown = JSON.parse(entry);
    return typeof facts === "object" ? facts : null;
  } catch {
    return null;
  }
}

/** `note`: a checkpoint that was kept. null: it is none, or not signed with one of the keys. */
export function keptCheckpoint(
  note: string,
  publicKeys: readonly string[],
): { readonly origin: string; readonly size: number } | null {
  return openCheckpoint(note, publicKeys)?.checkpoint ?? null;
}

/** The public keys with which the kept checkpoint and the newest one may be signed. */
export interface TrustedKeys {
  readonly kept: readonly string[];
  readonly newest: readonly string[];
}

/** What is wrong with a log, for the holder of an earlier checkpoint of it. null: it continues it. */
export function judgeContinuation(note: string, log: AuditLogState, trusted: TrustedKeys): string | null {
  const older = openCheckpoint(note, trusted.kept)?.checkpoint;
  if (older === undefined) return "the kept checkpoint is not signed with a key of the fleet";
  if (log.consistency == null || log.size < older.size)
    return `the log has ${log.size} entries, and the kept checkpoint ${older.size}: the store is an older copy, or its log was cut off`;
  const newer =
    log.checkpoint === null ? undefined : openCheckpoint(log.checkpoint, trusted.newest)?.checkpoint;
  if (newer === undefined)
    return "the newest checkpoint is not signed with a key of the fleet that is not revoked: the next entry of the tenant makes a new one";
  if (newer.origin !== older.origin) return "the kept checkpoint is of another log";
  const hashes = log.consistency.map(exactBase64);
  const isProved = newer.size === log.size && hashes.every((hash) => hash !== null);
  return isProved && isConsistent(older, newer, hashes)
    ? null
    : "the log does not begin with the entries of the kept checkpoint: it was written again, or the store is an older copy that was used again";
}

/** The public keys with these ids; all without ids. */
export function keysNamed(
  keys: readonly { readonly key_id: string; readonly public_key: string }[],
  keyIds: readonly string[],
): readonly string[] {
  const named = keyIds.length === 0 ? keys : keys.filter(({ key_id }) => keyIds.includes(key_id));
  return named.map(({ public_key }) => public_key);
}
