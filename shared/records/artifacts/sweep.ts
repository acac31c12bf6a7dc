/**
 * The removal of artifacts that no stored checkpoint references any more, and of uploads that did not end, after a grace time. The
 * records go first, in a transaction that reads the references; then the bytes. Bytes without a record are left of a crash in between.
 */
import type { Reader, Store, Tx } from "../../store/store.ts";
import { appendTenantAudit } from "../audit/tenant-audit.ts";
import { readable } from "../kv/codec.ts";
import { after, endingId, endingName, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { addTotalBytes, decodeArtifact, decodeUpload, readArtifact, readUpload } from "./record.ts";
import { isReferenced } from "./references.ts";
import { endUpload, type RemovedUpload } from "./uploads.ts";

/** The number of records in one read. */
const SLICE = 100;
const READ_DEADLINE_MS = 3_000;
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;

export interface ArtifactSweep {
  readonly store: Store;
  /** The service, for the audit trail. */
  readonly service: string;
  readonly now: () => number;
  readonly graceMs: number;
  /** Throws unless this instance may still act. */
  readonly guard: (tx: Tx) => Promise<void>;
}

/** What a pass may remove, of one kind and in the order of the keys. */
export interface DueRecord {
  readonly tenant: string;
  readonly kind: "artifact" | "upload";
  /** The hash of the artifact, or the id of the upload. */
  readonly id: string;
}

/** All that is old enough and seems to have no reference. */
export async function* dueRecords(sweep: ArtifactSweep, first: string): AsyncGenerator<DueRecord> {
  for (let tenant: string | null = first; tenant !== null; ) {
    for (const kind of ["artifact", "upload"] as const) {
      for (let from: Uint8Array | null = null; ; ) {
        const page = await readPage(sweep, { tenant, kind, from });
        yield* page.found;
        if (page.next === null) break;
        from = page.next;
      }
    }
    tenant = await nextTenant(sweep, tenant);
  }
}

function nextTenant({ store }: ArtifactSweep, tenant: string): Promise<string | null> {
  const reading = { label: "artifact_tenants", deadlineMs: READ_DEADLINE_MS };
  return store.read(reading, (reader) => tenantAfter(reader, tenant));
}

interface PageOf extends Pick<DueRecord, "tenant" | "kind"> {
  /** null: from the first. */
  readonly from: Uint8Array | null;
}

async function readPage(
  { store, now, graceMs }: ArtifactSweep,
  { tenant, kind, from }: PageOf,
): Promise<{ found: DueRecord[]; next: Uint8Array | null }> {
  const keys = tenantKeys(tenant);
  const { begin, end } = kind === "artifact" ? keys.artifacts() : keys.artifactUploads();
  const dueMs = now() - graceMs;
  return store.read({ label: "artifact_sweep", deadlineMs: READ_DEADLINE_MS }, async (reader) => {
    const { rows, more } = await reader.getRange({ begin: from ?? begin, end }, { limit: SLICE });
    const found: DueRecord[] = [];
    for (const { key, value } of rows) {
      const id = kind === "artifact" ? endingName(key) : endingId(key);
      const isDue = kind === "upload" ? isDueUpload(value, dueMs) : isDueArtifact(value, dueMs);
      if (!isDue || (kind === "artifact" && (await isReferenced(reader, keys, id)))) continue;
      found.push({ tenant, kind, id });
    }
    const last = rows.at(-1);
    return { found, next: more && last !== undefined ? after(last.key) : null };
  });
}

/** A record that cannot be read stays: the scrub finds it. */
function isDueUpload(value: Uint8Array, dueMs: number): boolean {
  const upload = readable(() => decodeUpload(value));
  return upload !== null && !upload.isStored && upload.beganMs <= dueMs;
}

function isDueArtifact(value: Uint8Array, dueMs: number): boolean {
  const artifact = readable(() => decodeArtifact(value));
  return artifact !== null && artifact.touchedMs <= dueMs;
}

/** Removes the records, if nothing has changed since. null: it stays. */
export async function removeDue(sweep: ArtifactSweep, candidate: DueRecord): Promise<RemovedUpload | null> {
  const { store, guard, now, graceMs } = sweep;
  const { value } = await store.transact({ ...WRITE, label: "remove_artifact" }, async (tx) => {
    await guard(tx);
    const dueMs = now() - graceMs;
    return candidate.kind === "upload"
      ? removeUpload(tx, candidate, dueMs)
      : removeArtifact(tx, sweep, candidate, dueMs);
  });
  return value;
}

async function removeUpload(tx: Tx, { tenant, id }: DueRecord, dueMs: number): Promise<RemovedUpload | null> {
  const upload = await readUpload(tx, tenantKeys(tenant), id);
  if (upload === null || upload.beganMs > dueMs) return null;
  const ended = await endUpload(tx, tenant, id);
  return ended && { upload: id, size: ended.size };
}

async function removeArtifact(
  tx: Tx,
  { service, now }: ArtifactSweep,
  { tenant, id: hash }: DueRecord,
  dueMs: number,
): Promise<RemovedUpload | null> {
  const keys = tenantKeys(tenant);
  const artifact = await readArtifact(tx, keys, hash);
  if (artifact === null || artifact.touchedMs > dueMs || (await isReferenced(tx, keys, hash))) return null;
  const { size, upload } = artifact;
  tx.clear(keys.artifact(hash));
  tx.clear(keys.artifactUpload(upload));
  await addTotalBytes(tx, keys, -size);
  const actor = { id: service, type: "service" } as const;
  const at = new Date(now()).toISOString();
  const act = { action: "artifact_remove", actor, at, subject: { sha256: hash, size } } as const;
  await appendTenantAudit(tx, tenant, [act]);
  return { upload, size };
}

/** Whether the bytes of an upload have no record: a crash left them. No upload stores bytes before its record. */
export async function isLeftOver(reader: Reader, tenant: string, upload: string): Promise<boolean> {
  return (await readUpload(reader, tenantKeys(tenant), upload)) === null;
}
