/**
 * The references of checkpoints to artifacts. A checkpoint keeps those of all its versions until it is removed. The command that
 * writes a reference reads the record of the artifact, and the removal of an artifact reads its references: one of two that meet is
 * repeated and sees the other.
 */
import type { ArtifactReference } from "../../protocol/artifacts.ts";
import type { Checkpoint, UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import { type FieldProblem, FleetError } from "../../protocol/errors.ts";
import { type Reader, STORE_LIMITS, type Tx } from "../../store/store.ts";
import { endingName, type TenantKeys } from "../kv/keyspace.ts";
import { decodeArtifact, readArtifact, writeArtifact } from "./record.ts";

const EMPTY = new Uint8Array(0);

type Referring = Pick<Checkpoint | UnsealedCheckpoint, "artifacts" | "metadata">;

/** Throws INVALID unless every artifact is stored with the size that its reference states. `path`: of the list. */
export async function requireArtifacts(
  tx: Tx,
  keys: TenantKeys,
  artifacts: readonly ArtifactReference[] | undefined,
  path: string,
): Promise<void> {
  if (artifacts === undefined || artifacts.length === 0) return;
  const values = await tx.getMany(artifacts.map(({ sha256 }) => keys.artifact(sha256)));
  const fields = artifacts.flatMap(({ sha256, size }, i): FieldProblem[] => {
    const value = values[i];
    if (value === undefined) {
      return [{ path: `${path}.${i}.sha256`, expected: "an artifact that is stored", got: sha256 }];
    }
    const stored = decodeArtifact(value).size;
    if (stored === size) return [];
    return [
      { path: `${path}.${i}.size`, expected: `${stored}, the size of the artifact`, got: String(size) },
    ];
  });
  if (fields.length > 0) throw new FleetError("INVALID", "the input is not valid", { fields });
}

/** Writes the references of a version. */
export function writeReferences(tx: Tx, keys: TenantKeys, { artifacts, metadata }: Referring): void {
  const { task_id: task, checkpoint_id: id } = metadata;
  for (const { sha256 } of artifacts ?? []) {
    tx.set(keys.artifactReference(sha256, task, id), EMPTY);
    tx.set(keys.checkpointArtifact(task, id, sha256), EMPTY);
  }
}

/** Clears the references of a checkpoint that is removed. The grace time of its artifacts begins again. */
export async function clearReferences(
  tx: Tx,
  keys: TenantKeys,
  { task, id }: { readonly task: string; readonly id: string },
  nowMs: number,
): Promise<void> {
  const range = keys.checkpointArtifacts(task, id);
  const { rows } = await tx.getRange(range, { limit: STORE_LIMITS.range_rows_max });
  for (const { key } of rows) {
    const hash = endingName(key);
    tx.clear(keys.artifactReference(hash, task, id));
    const artifact = await readArtifact(tx, keys, hash);
    if (artifact !== null) writeArtifact(tx, keys, hash, { ...artifact, touchedMs: nowMs });
  }
  tx.clearRange(range);
}

/** Whether a stored checkpoint references the artifact. */
export async function isReferenced(reader: Reader, keys: TenantKeys, hash: string): Promise<boolean> {
  const { rows } = await reader.getRange(keys.artifactReferences(hash), { limit: 1 });
  return rows.length > 0;
}
