/** Reads the records of signing keys. */
import type { SigningKey } from "../../integrity/dsse.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { keyStateOf, type SigningKeyRecord } from "../../protocol/signing-keys.ts";
import { sameBytes } from "../../store/same-bytes.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, readable } from "../kv/codec.ts";
import { systemKeys } from "../kv/keyspace.ts";

export interface StoredSigningKey extends SigningKeyRecord {
  /** The numbers of the audit entries of its changes. */
  readonly entries: {
    readonly key_add: number;
    readonly key_rotate?: number;
    readonly key_retire?: number;
    readonly key_revoke?: number;
    /** Of a key that was revoked again: that of its first revocation. */
    readonly key_revoke_first?: number;
  };
}

/** The number of the entry that states that every entry of the store is signed. */
export const signaturesRequiredKey = (): Bytes => systemKeys.meta("signatures_required");

export function decodeSigningKey(value: Bytes): StoredSigningKey {
  return decodeChecked<StoredSigningKey>(value);
}

/** null: it is not registered, or its record is damaged, which the scrub reports. */
export async function findSigningKey(reader: Reader, id: string): Promise<StoredSigningKey | null> {
  const value = await reader.get(systemKeys.signingKey(id));
  return value === undefined ? null : readable(() => decodeSigningKey(value));
}

interface KeyUse {
  readonly value: Bytes;
  readonly beginMs: number;
}

/** The records with which keys were found in use. Each commit reads that of its key, which rarely changes. */
const inUse = new WeakMap<SigningKey, KeyUse>();

/**
 * The earliest time that a new signature with the key may state, in milliseconds since the epoch. null: none may be made, at the commit of the
 * transaction.
 */
export async function beginOfUse(tx: Tx, key: SigningKey): Promise<number | null> {
  const value = await tx.get(systemKeys.signingKey(key.id));
  if (value === undefined) return null;
  const known = inUse.get(key);
  if (sameBytes(value, known?.value) && known !== undefined) return known.beginMs;
  const record = readable(() => decodeSigningKey(value));
  if (!isKeyInUse(record)) return null;
  const beginMs = Date.parse(record.not_before);
  inUse.set(key, { value: Uint8Array.from(value), beginMs });
  return beginMs;
}

/** Whether new signatures may be made with the key, of a time from its begin on. */
export function isKeyInUse(record: StoredSigningKey | null): record is StoredSigningKey {
  return record !== null && keyStateOf(record) === "active";
}

/** All keys, in the order of their ids, without damaged records. */
export async function listSigningKeys(reader: Reader): Promise<StoredSigningKey[]> {
  const { rows } = await reader.getRange(systemKeys.signingKeys(), { limit: LIMITS.signing_keys_max });
  return rows.flatMap(({ value }) => readable(() => decodeSigningKey(value)) ?? []);
}

/**
 * Whether every entry of the store is signed: it was new when its first key was registered. Otherwise older versions, or services without a key, have
 * written in it, and may still do so.
 */
export async function areSignaturesRequired(reader: Reader): Promise<boolean> {
  return (await reader.get(signaturesRequiredKey())) !== undefined;
}
