/**
 * The rows of wrapped keys. A root key wraps the bucket keys of a tenant, and a bucket key wraps the data keys of the tenant and its tasks. Each wrapped
 * key is bound to its place, so one that was moved to another tenant or task does not unwrap.
 */
import { createSecretKey, randomBytes } from "node:crypto";
import {
  DATA_KEY_BYTES,
  DATA_KEY_ID_BYTES,
  type DataKey,
  decryptBytes,
  encryptBytes,
  encryptedWith,
} from "../../../integrity/encryption/encrypted-bytes.ts";
import type { Bytes } from "../../../store/store.ts";
import { decodeChecked, encodeChecked, isDamage } from "../../kv/codec.ts";
import { systemKeys, tenantKeys } from "../../kv/keyspace.ts";
import { keyIdText } from "../sealed-value.ts";
import type { KeyPlace } from "./place.ts";

export interface BucketRecord {
  readonly id: Bytes;
  /** The id of the root key that wrapped it. */
  readonly root: string;
  readonly wrapped: Bytes;
  /** ISO 8601. */
  readonly created_at: string;
}

export const encodeBucket = (record: BucketRecord): Bytes => encodeChecked(record);

/** null: the row was changed. */
export function decodeBucket(value: Bytes): BucketRecord | null {
  try {
    return decodeChecked<BucketRecord>(value);
  } catch (error) {
    if (isDamage(error)) return null;
    throw error;
  }
}

/** The data keys of a place, as wrapped. */
type DataKeyRow = readonly { readonly id: Bytes; readonly wrapped: Bytes }[];

/** The newest first: it encrypts new rows. */
export interface DataKeys {
  readonly newest: DataKey;
  readonly byId: ReadonlyMap<string, DataKey>;
}

export function newDataKey(): { readonly key: DataKey; readonly secret: Buffer } {
  const secret = randomBytes(DATA_KEY_BYTES);
  return { key: { id: randomBytes(DATA_KEY_ID_BYTES), secret: createSecretKey(secret) }, secret };
}

export function dataKeyFrom(id: Bytes, secret: Bytes): DataKey {
  return { id: Buffer.from(id), secret: createSecretKey(Buffer.from(secret)) };
}

/** The row of the data keys of a place. */
export function dataKeysKey({ tenant, task }: KeyPlace): Bytes {
  if (tenant === null) return systemKeys.systemDataKeys();
  const keys = tenantKeys(tenant);
  return task === null ? keys.tenantDataKeys() : keys.dataKeys(task);
}

/** Of characters that every source of root keys takes. Neither tenants nor tasks have spaces. */
export function bucketContext(owner: KeyPlace, id: Bytes): string {
  return `fleet/bucket-key/v1 ${owner.id} ${Buffer.from(id).toString("hex")}`;
}

const dataKeyAddress = ({ id }: KeyPlace): Buffer => Buffer.from(`fleet/data-key/v1 ${id}`);

/** A row with one new key. */
export function encodeNewDataKey(
  bucket: DataKey,
  place: KeyPlace,
  fresh: { key: DataKey; secret: Buffer },
): Bytes {
  const wrapped = encryptBytes(bucket, fresh.secret, dataKeyAddress(place));
  return encodeChecked([{ id: fresh.key.id, wrapped }] satisfies DataKeyRow);
}

/** The ids of the data keys of a row, in hex. Throws UnreadableValue. */
export function idsOfRow(row: Bytes): string[] {
  return decodeChecked<DataKeyRow>(row).map(({ id }) => Buffer.from(id).toString("hex"));
}

/** The ids of the bucket keys that wrapped the keys of a row. Throws UnreadableValue. */
export function bucketsOfRow(row: Bytes): string[] {
  return decodeChecked<DataKeyRow>(row).map(({ wrapped }) => bucketIdOf(wrapped));
}

/** null: a key was changed, or wrapped for another place, or by a bucket key that is not there. */
export function unwrapDataKeys(
  buckets: ReadonlyMap<string, DataKey>,
  place: KeyPlace,
  row: Bytes,
): DataKeys | null {
  const keys = unwrapped(buckets, place, row)?.map(({ id, secret }) => dataKeyFrom(id, secret)) ?? [];
  const [newest] = keys;
  return newest === undefined ? null : { newest, byId: new Map(keys.map((key) => [keyIdText(key.id), key])) };
}

/** The row with all its keys wrapped by another bucket key; null: as {@link unwrapDataKeys}. */
export function rewrapDataKeys(
  buckets: ReadonlyMap<string, DataKey>,
  bucket: DataKey,
  place: KeyPlace,
  row: Bytes,
): Bytes | null {
  const keys = unwrapped(buckets, place, row);
  if (keys === null) return null;
  const address = dataKeyAddress(place);
  return encodeChecked(
    keys.map(({ id, secret }) => ({ id, wrapped: encryptBytes(bucket, secret, address) })),
  );
}

function unwrapped(buckets: ReadonlyMap<string, DataKey>, place: KeyPlace, row: Bytes) {
  const keys = [];
  for (const { id, wrapped } of decodeChecked<DataKeyRow>(row)) {
    const bucket = buckets.get(bucketIdOf(wrapped));
    const secret = bucket === undefined ? null : decryptBytes(bucket, wrapped, dataKeyAddress(place));
    if (secret === null || secret.length !== DATA_KEY_BYTES || id.length !== DATA_KEY_ID_BYTES) return null;
    keys.push({ id, secret });
  }
  return keys;
}

function bucketIdOf(wrapped: Bytes): string {
  const id = encryptedWith(wrapped);
  return id === null ? "" : keyIdText(id);
}
