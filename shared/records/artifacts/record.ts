/** The records of an artifact, of its upload, and of the bytes of a tenant. */
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked } from "../kv/codec.ts";
import type { TenantKeys } from "../kv/keyspace.ts";

/** A stored artifact. Times are milliseconds since the epoch. */
export interface ArtifactRecord {
  readonly size: number;
  /** The upload that has its bytes. */
  readonly upload: string;
  readonly storedMs: number;
  readonly storedBy: string;
  /** The last time at which a program had a reason to use it. The grace time begins here. */
  readonly touchedMs: number;
  /** The scrub found that the bytes are lost or do not have the hash. */
  readonly isDamaged: boolean;
}

export interface UploadRecord {
  readonly sha256: string;
  readonly size: number;
  readonly by: string;
  readonly beganMs: number;
  /** Its bytes are those of the artifact. */
  readonly isStored: boolean;
}

type ArtifactRow = [
  size: number,
  upload: string,
  storedMs: number,
  storedBy: string,
  touchedMs: number,
  isDamaged?: boolean,
];
type UploadRow = [sha256: string, size: number, by: string, beganMs: number, isStored: boolean];

export function writeArtifact(tx: Tx, keys: TenantKeys, hash: string, artifact: ArtifactRecord): void {
  const { size, upload, storedMs, storedBy, touchedMs, isDamaged } = artifact;
  const row: ArtifactRow = [size, upload, storedMs, storedBy, touchedMs];
  if (isDamaged) row.push(true);
  tx.set(keys.artifact(hash), encodeChecked(row));
}

export function decodeArtifact(value: Bytes): ArtifactRecord {
  const [size, upload, storedMs, storedBy, touchedMs, isDamaged = false] = decodeChecked<ArtifactRow>(value);
  return { size, upload, storedMs, storedBy, touchedMs, isDamaged };
}

/** null: it is not stored. */
export async function readArtifact(
  reader: Reader,
  keys: TenantKeys,
  hash: string,
): Promise<ArtifactRecord | null> {
  const value = await reader.get(keys.artifact(hash));
  return value === undefined ? null : decodeArtifact(value);
}

export function writeUpload(tx: Tx, keys: TenantKeys, id: string, upload: UploadRecord): void {
  const { sha256, size, by, beganMs, isStored } = upload;
  const row: UploadRow = [sha256, size, by, beganMs, isStored];
  tx.set(keys.artifactUpload(id), encodeChecked(row));
}

export function decodeUpload(value: Bytes): UploadRecord {
  const [sha256, size, by, beganMs, isStored] = decodeChecked<UploadRow>(value);
  return { sha256, size, by, beganMs, isStored };
}

/** null: there is none, or it ended. */
export async function readUpload(reader: Reader, keys: TenantKeys, id: string): Promise<UploadRecord | null> {
  const value = await reader.get(keys.artifactUpload(id));
  return value === undefined ? null : decodeUpload(value);
}

export async function readTotalBytes(reader: Reader, keys: TenantKeys): Promise<number> {
  const value = await reader.get(keys.artifactBytes());
  return value === undefined ? 0 : decodeChecked<number>(value);
}

export async function addTotalBytes(tx: Tx, keys: TenantKeys, bytes: number): Promise<void> {
  const total = (await readTotalBytes(tx, keys)) + bytes;
  tx.set(keys.artifactBytes(), encodeChecked(Math.max(0, total)));
}
