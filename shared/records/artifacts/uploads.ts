/**
 * Uploads. An upload reserves its size among the bytes of its tenant when it begins, so that uploads at the same time cannot exceed
 * the limit together. It becomes the artifact, or replaces its damaged
 * bytes, or ends because another upload of the same bytes was faster, or expires.
 */
import { FleetError } from "../../protocol/errors.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { actOf, appendTenantAudit } from "../audit/tenant-audit.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import {
  addTotalBytes,
  readArtifact,
  readTotalBytes,
  readUpload,
  type UploadRecord,
  writeArtifact,
  writeUpload,
} from "./record.ts";

export interface Uploader {
  readonly tenant: string;
  /** The agent or person that uploads. */
  readonly caller: string;
  readonly nowMs: number;
}

export interface NewUpload {
  readonly upload: string;
  readonly sha256: string;
  readonly size: number;
  /** The upload of the artifact, if its bytes are lost or damaged. */
  readonly replaces: string | null;
}

/** An upload whose bytes are not needed. */
export interface RemovedUpload {
  readonly upload: string;
  readonly size: number;
}

export interface StoredOutcome {
  /** False: another upload has stored the bytes before, and those of this one are not needed. */
  readonly isKept: boolean;
  /** The upload with the damaged bytes, which this one has replaced. */
  readonly replaced: RemovedUpload | null;
}

/** True: the tenant has the bytes. Throws TOO_LARGE over the limit of the tenant, CONFLICT for another upload of this id. */
export async function beginUpload(
  tx: Tx,
  { tenant, caller, nowMs }: Uploader,
  { upload, sha256, size, replaces }: NewUpload,
  totalBytesMax: number,
): Promise<boolean> {
  const keys = tenantKeys(tenant);
  const artifact = await readArtifact(tx, keys, sha256);
  if (artifact !== null) {
    if (artifact.size !== size) throw conflict(upload);
    const isDamaged = artifact.upload === replaces;
    writeArtifact(tx, keys, sha256, { ...artifact, touchedMs: nowMs, isDamaged });
    if (!isDamaged) return true;
  }
  const begun = await readUpload(tx, keys, upload);
  if (begun !== null) {
    if (begun.sha256 !== sha256 || begun.size !== size || begun.by !== caller) throw conflict(upload);
    return false;
  }
  const total = await readTotalBytes(tx, keys);
  // The bytes that it replaces are released.
  if (artifact === null && total + size > totalBytesMax) {
    throw new FleetError("TOO_LARGE", "the artifacts of the tenant have reached their limit", {
      details: { total_bytes: total, total_bytes_max: totalBytesMax, size },
    });
  }
  writeUpload(tx, keys, upload, { sha256, size, by: caller, beganMs: nowMs, isStored: false });
  await addTotalBytes(tx, keys, size);
  return false;
}

/** The upload of this caller. Throws NOT_FOUND. */
export async function ownUpload(
  reader: Reader,
  { tenant, caller }: Pick<Uploader, "tenant" | "caller">,
  upload: string,
): Promise<UploadRecord> {
  const found = await readUpload(reader, tenantKeys(tenant), upload);
  if (found !== null && found.by === caller) return found;
  throw new FleetError("NOT_FOUND", "there is no such upload: it expired, or its bytes had another hash", {
    details: { upload_id: upload },
  });
}

/** The bytes of the upload have its hash. `damaged`: the upload of the artifact, if its bytes do not. */
export async function storeArtifact(
  tx: Tx,
  by: Uploader,
  upload: string,
  damaged: string | null,
): Promise<StoredOutcome> {
  const { tenant, caller, nowMs } = by;
  const keys = tenantKeys(tenant);
  const { sha256, size, beganMs, isStored } = await ownUpload(tx, by, upload);
  if (isStored) return { isKept: true, replaced: null };
  const artifact = await readArtifact(tx, keys, sha256);
  if (artifact !== null && artifact.upload !== damaged) {
    writeArtifact(tx, keys, sha256, { ...artifact, touchedMs: nowMs });
    await endUpload(tx, tenant, upload);
    return { isKept: false, replaced: null };
  }
  writeUpload(tx, keys, upload, { sha256, size, by: caller, beganMs, isStored: true });
  const first = artifact ?? { storedMs: nowMs, storedBy: caller };
  const { storedMs, storedBy } = first;
  writeArtifact(tx, keys, sha256, {
    ...{ size, upload, storedMs, storedBy },
    ...{ touchedMs: nowMs, isDamaged: false },
  });
  if (artifact === null) return { isKept: true, replaced: null };
  tx.clear(keys.artifactUpload(artifact.upload));
  await addTotalBytes(tx, keys, -artifact.size);
  await appendTenantAudit(tx, tenant, [actOf(by, "artifact_repair", nowMs, { sha256, size })]);
  return { isKept: true, replaced: { upload: artifact.upload, size: artifact.size } };
}

/** Ends an upload that is no artifact, and releases its bytes. null: it is an artifact, or has ended. */
export async function endUpload(tx: Tx, tenant: string, upload: string): Promise<UploadRecord | null> {
  const keys = tenantKeys(tenant);
  const found = await readUpload(tx, keys, upload);
  if (found === null || found.isStored) return null;
  tx.clear(keys.artifactUpload(upload));
  await addTotalBytes(tx, keys, -found.size);
  return found;
}

function conflict(upload: string): FleetError {
  return new FleetError("CONFLICT", "the upload or the artifact exists with other values", {
    details: { upload_id: upload },
  });
}
