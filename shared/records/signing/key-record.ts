/** Reads the records of signing keys. */
import { LIMITS } from "../../protocol/limits.ts";
import type { SigningKeyRecord } from "../../protocol/signing-keys.ts";
import type { Bytes, Reader } from "../../store/store.ts";
import { decodeChecked } from "../kv/codec.ts";
import { systemKeys } from "../kv/keyspace.ts";

export interface StoredSigningKey extends SigningKeyRecord {
  /** The numbers of the audit entries of its changes. */
  readonly entries: {
    readonly key_add: number;
    readonly key_retire?: number;
    readonly key_revoke?: number;
  };
}

export const requiredFromKey = (): Bytes => systemKeys.meta("signatures_required_from");

/** null: it is not registered. Throws for a damaged record. */
export async function readSigningKey(reader: Reader, id: string): Promise<StoredSigningKey | null> {
  const value = await reader.get(systemKeys.signingKey(id));
  return value === undefined ? null : decodeSigningKey(value);
}

export function decodeSigningKey(value: Bytes): StoredSigningKey {
  return decodeChecked<StoredSigningKey>(value);
}

/** All keys, in the order of their ids. */
export async function listSigningKeys(reader: Reader): Promise<StoredSigningKey[]> {
  const { rows } = await reader.getRange(systemKeys.signingKeys(), { limit: LIMITS.signing_keys_max });
  return rows.map(({ value }) => decodeSigningKey(value));
}

/** The time from which entries must be signed; null: older versions have written in the store, or it has no keys. */
export async function readRequiredFrom(reader: Reader): Promise<string | null> {
  const value = await reader.get(requiredFromKey());
  return value === undefined ? null : decodeChecked<string>(value);
}
