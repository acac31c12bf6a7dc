/**
 * The sample of a pass: artifacts whose bytes are hashed, and their references. A pass reads so many of them, and the next one continues
 * there, so that each has its turn. The bytes are read before the snapshot. Damage is marked in the record of the artifact, so that the
 * passes until its next turn find it too.
 */

import { NO_TASK } from "../../protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { type ArtifactRecord, decodeArtifact, readArtifact, writeArtifact } from "../artifacts/record.ts";
import { parseArtifactReference } from "../kv/artifact-keys.ts";
import { readable } from "../kv/codec.ts";
import { after, endingName, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { type ArtifactVerdict, type ScrubStep, TaskScrub } from "./scrub-reader.ts";

/** The artifacts whose bytes one pass hashes, and those bytes. A larger artifact may be the last one. */
const ARTIFACTS_MAX = 200;
const BYTES_MAX = 256 * 1024 * 1024;
/** References of one artifact that a pass looks up. */
const REFERENCES = 20;
/** The sweep of artifacts is late, but may still come. */
const LATE_MS = 3_600_000;

/** The last artifact that had its turn. */
export interface SamplePlace {
  readonly tenant: string;
  /** null: none of the tenant. */
  readonly hash: string | null;
}

export interface SampleAt extends SamplePlace {
  /** Artifacts of this pass so far, and their bytes. */
  readonly count: number;
  readonly bytes: number;
}

export const SAMPLE_START: SamplePlace = { tenant: DEFAULT_TENANT, hash: null };

export interface SampledArtifact {
  readonly tenant: string;
  readonly hash: string;
  /** null: the record cannot be read. The walk finds that at each reference. */
  readonly artifact: ArtifactRecord | null;
}

/** null: none follows. */
export async function nextSampled(
  reader: Reader,
  { tenant, hash }: SamplePlace,
): Promise<SampledArtifact | null> {
  for (let name: string | null = tenant, last = hash; name !== null; last = null) {
    const keys = tenantKeys(name);
    const { begin, end } = keys.artifacts();
    const from = last === null ? begin : after(keys.artifact(last));
    const { rows } = await reader.getRange({ begin: from, end }, { limit: 1 });
    const [row] = rows;
    if (row !== undefined) {
      return {
        tenant: name,
        hash: endingName(row.key),
        artifact: readable(() => decodeArtifact(row.value)),
      };
    }
    name = await tenantAfter(reader, name);
  }
  return null;
}

/** Where the stage continues. null: the pass has its sample. */
export function afterSampled(
  { count, bytes }: SampleAt,
  { tenant, hash, artifact }: SampledArtifact,
): SampleAt {
  return { tenant, hash, count: count + 1, bytes: bytes + (artifact?.size ?? 0) };
}

export function isSampleFull({ count, bytes }: SampleAt): boolean {
  return count >= ARTIFACTS_MAX || bytes >= BYTES_MAX;
}

/** `found`: the hash of the bytes; null: they are lost. */
export async function verifySampled(
  step: ScrubStep,
  { tenant, hash, artifact }: SampledArtifact,
  found: string | null,
  { nowMs, graceMs }: { readonly nowMs: number; readonly graceMs: number },
): Promise<void> {
  const keys = tenantKeys(tenant);
  const now = await readArtifact(step.reader, keys, hash);
  // It was removed or repaired while its bytes were read.
  if (artifact === null || now === null || now.upload !== artifact.upload) return;
  const isDamaged = found !== hash;
  if (isDamaged !== now.isDamaged) step.verdicts.push({ tenant, hash, upload: now.upload, isDamaged });
  const { rows } = await step.reader.getRange(keys.artifactReferences(hash), { limit: REFERENCES });
  for (const { key } of rows) {
    const { task, id } = parseArtifactReference(key);
    const note = (details: string): void => step.noteOnce(tenant, task, damageOf({ id, details }));
    if (isDamaged) note(damagedText(hash));
    if ((await step.reader.get(keys.checkpoint(task, id))) === undefined)
      note(`a reference to the artifact ${hash} is of a checkpoint that does not exist`);
  }
  const noteAlone = (details: string): void =>
    new TaskScrub(step, tenant, NO_TASK, { canMark: false, found: 0 }).note(damageOf({ id: null, details }));
  if (rows.length > 0) return;
  if (isDamaged) noteAlone(damagedText(hash));
  const lateMs = Math.max(graceMs, LATE_MS);
  if (now.touchedMs + graceMs + lateMs < nowMs)
    noteAlone(`the artifact ${hash} has no reference, and was not removed after its grace time`);
}

export const damagedText = (hash: string): string => `the bytes of its artifact ${hash} are lost or damaged`;

function damageOf({ id, details }: { readonly id: string | null; readonly details: string }) {
  return { kind: "artifact", checkpoint_id: id, version: null, details, quarantined: false } as const;
}

/** Marks what is damaged, and what is sound again, unless it was repaired since. */
export async function writeVerdicts(tx: Tx, verdicts: readonly ArtifactVerdict[]): Promise<void> {
  for (const { tenant, hash, upload, isDamaged } of verdicts) {
    const keys = tenantKeys(tenant);
    const artifact = await readArtifact(tx, keys, hash);
    if (artifact?.upload === upload) writeArtifact(tx, keys, hash, { ...artifact, isDamaged });
  }
}
