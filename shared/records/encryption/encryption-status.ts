/** What operators see of the encryption of a store. No secret is in it. */
import { FleetError } from "../../protocol/errors.ts";
import type { KeyValue, Reader, Store } from "../../store/store.ts";
import { formatIn } from "../kv/format.ts";
import { after, systemKeys } from "../kv/keyspace.ts";
import { type EncryptionState, readEncryptionState } from "./encryption-state.ts";
import { readRotation } from "./jobs/rotation-record.ts";
import { BUCKET_KEYS_MAX } from "./keys/bucket-keys.ts";
import { parseBucketKey } from "./keys/encryption-keys.ts";
import { decodeBucket } from "./keys/key-record.ts";
import type { KeyRing } from "./keys/key-ring.ts";

const READ = { label: "encryption_status", deadlineMs: 2_000 } as const;
const PAGE = 1_000;

interface BucketCounts {
  readonly bucket_keys: number;
  /** Their rows were changed: a backup has the sound ones. */
  readonly bucket_keys_damaged: number;
  /** Those that another root key wrapped: it is still needed. */
  readonly bucket_keys_of_other_roots: number;
  /** ISO 8601. */
  readonly oldest_bucket_key_at: string | null;
  /** Tenants with more than one bucket key: a rotation is in progress. */
  readonly tenants_in_rotation: number;
  /** Tenants with as many bucket keys as they may have: a rotation gives them no new one. */
  readonly tenants_at_key_limit: number;
}

export interface EncryptionStatus extends BucketCounts {
  readonly state: EncryptionState["state"];
  readonly began_at: string;
  readonly completed_at: string | null;
  /** The rows that the conversion has encrypted. */
  readonly converted_rows: number;
  /** ISO 8601: the time of the backup from which the store was restored. Absent: it was not. */
  readonly restored_backup_at?: string;
  /** That backup had the rows of the store, and no other bytes of its file. Absent: not known. */
  readonly restored_rows_only?: true;
  /** The root key of new bucket keys. */
  readonly root_key: string;
  readonly rotations_pending: number;
  /** Data keys that the last walk of a rotation could not unwrap. They were changed: a backup has the sound ones. */
  readonly data_keys_damaged: number;
  /** Tenants that the last walk passed, because a root key of theirs cannot be used. */
  readonly tenants_unavailable: number;
  /** ISO 8601: when a rotation that left keys tries them again. */
  readonly rotation_retry_at: string | null;
}

export async function readEncryptionStatus(
  store: Store,
  { ring }: { readonly ring: KeyRing },
): Promise<EncryptionStatus> {
  return store.read(READ, async (reader) => {
    const state = await readEncryptionState(reader);
    if (state === null) throw new FleetError("CORRUPT", "the record of the store's encryption is missing");
    const buckets = await bucketsOf(reader, ring);
    const { began_at, completed_at, converted } = state;
    const { restored } = (await formatIn(reader)) ?? {};
    const { record } = await readRotation(reader);
    const left = record === null || record.phase === "adding" ? { damaged: 0, unavailable: 0 } : record;
    return {
      ...{ state: state.state, began_at, completed_at, converted_rows: converted },
      ...(restored !== undefined && { restored_backup_at: restored.backup_at }),
      ...(restored?.rows_only === true && { restored_rows_only: true }),
      root_key: ring.buckets.firstRoot,
      ...buckets,
      rotations_pending: state.rotations - state.rotated,
      data_keys_damaged: left.damaged,
      tenants_unavailable: left.unavailable,
      rotation_retry_at: record?.phase === "waiting" ? record.retry_at : null,
    };
  });
}

/** It needs neither the record of the encryption nor that of a rotation, so damage to these does not stop a rotation of root keys. */
export function readBucketCounts(store: Store, { ring }: { readonly ring: KeyRing }): Promise<BucketCounts> {
  return store.read(READ, (reader) => bucketsOf(reader, ring));
}

async function bucketsOf(reader: Reader, ring: KeyRing): Promise<BucketCounts> {
  const rows = await bucketRows(reader);
  const owners = new Map<string | null, number>();
  let [others, damaged] = [0, 0];
  let oldest: string | null = null;
  for (const { key, value } of rows) {
    const { tenant } = parseBucketKey(key);
    owners.set(tenant, (owners.get(tenant) ?? 0) + 1);
    const record = decodeBucket(value);
    if (record === null) {
      damaged += 1;
      continue;
    }
    const { root, created_at } = record;
    if (root !== ring.buckets.firstRoot) others += 1;
    if (oldest === null || created_at < oldest) oldest = created_at;
  }
  return {
    bucket_keys: rows.length,
    bucket_keys_damaged: damaged,
    bucket_keys_of_other_roots: others,
    oldest_bucket_key_at: oldest,
    tenants_in_rotation: [...owners.values()].filter((count) => count > 1).length,
    tenants_at_key_limit: [...owners.values()].filter((count) => count >= BUCKET_KEYS_MAX).length,
  };
}

async function bucketRows(reader: Reader): Promise<readonly KeyValue[]> {
  const { begin, end } = systemKeys.bucketKeys();
  const all: KeyValue[] = [];
  for (let from = begin; ; ) {
    const { rows, more } = await reader.getRange({ begin: from, end }, { limit: PAGE });
    all.push(...rows);
    const last = rows.at(-1);
    if (!more || last === undefined) return all;
    from = after(last.key);
  }
}
