/**
 * Verifies the artifacts of a version: each has its record, and the references that keep it. The bytes are compared by their size
 * alone, because hashing them would take the time of the whole scrub; the sample of each pass compares hashes.
 */

import { partsOf } from "../../../protocol/artifacts.ts";
import type { Checkpoint } from "../../../protocol/checkpoint.ts";
import { type ArtifactRecord, decodeArtifact } from "../../artifacts/record.ts";
import { readable } from "../../kv/codec.ts";
import { damagedText } from "../artifact-sample.ts";
import type { TaskScrub } from "../scrub-reader.ts";

export async function verifyArtifacts(
  scrub: TaskScrub,
  { artifacts, metadata }: Pick<Checkpoint, "artifacts" | "metadata">,
): Promise<void> {
  // An earlier version of the fleet knew no such field, and kept what an agent wrote into it.
  if (!Array.isArray(artifacts)) return;
  const { reader, keys, task } = scrub;
  const { checkpoint_id: id } = metadata;
  const note = (details: string): void =>
    scrub.note({ kind: "artifact", checkpoint_id: id, version: null, details });
  for (const { sha256, size } of artifacts) {
    if (typeof sha256 !== "string") continue;
    const [row, ...references] = await reader.getMany([
      keys.artifact(sha256),
      keys.artifactReference(sha256, task, id),
      keys.checkpointArtifact(task, id, sha256),
    ]);
    if (references.includes(undefined)) note(`the entry that keeps its artifact ${sha256} is lost`);
    const artifact = row === undefined ? null : readable(() => decodeArtifact(row));
    if (artifact === null) note(`the record of its artifact ${sha256} is lost or cannot be read`);
    else if (artifact.size !== size) note(`its artifact ${sha256} has another size than it states`);
    else if (artifact.isDamaged) note(damagedText(sha256));
    else if (!(await isWhole(scrub, artifact))) note(`bytes of its artifact ${sha256} are lost`);
  }
}

async function isWhole({ step, tenant }: TaskScrub, { size, upload }: ArtifactRecord): Promise<boolean> {
  const place = { tenant, upload, parts: partsOf(size) };
  return step.artifactSize === undefined || (await step.artifactSize(place)) === size;
}
