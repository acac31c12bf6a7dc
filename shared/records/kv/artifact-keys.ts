/** The keys of artifacts, their uploads and their references in the keyspace of a tenant. */
import type { Bytes, KeyRange } from "../../store/store.ts";
import { children, element, elementsOf, formatUuid, name, UUID_BYTES, uuid } from "./key-elements.ts";

type Subspace =
  | "artifacts"
  | "artifact_uploads"
  | "artifact_references"
  | "checkpoint_artifacts"
  | "artifact_bytes";

export function artifactKeys(at: (subspace: Subspace, ...parts: Buffer[]) => Buffer) {
  return {
    artifact: (hash: string): Bytes => at("artifacts", element(hash)),
    artifacts: (): KeyRange => children(at("artifacts")),
    artifactUpload: (upload: string): Bytes => at("artifact_uploads", uuid(upload)),
    artifactUploads: (): KeyRange => children(at("artifact_uploads")),
    artifactReference: (hash: string, task: string, id: string): Bytes =>
      at("artifact_references", element(hash), name(task), uuid(id)),
    artifactReferences: (hash: string): KeyRange => children(at("artifact_references", element(hash))),
    checkpointArtifact: (task: string, id: string, hash: string): Bytes =>
      at("checkpoint_artifacts", name(task), uuid(id), element(hash)),
    checkpointArtifacts: (task: string, id: string): KeyRange =>
      children(at("checkpoint_artifacts", name(task), uuid(id))),
    artifactBytes: (): Bytes => at("artifact_bytes"),
  };
}

/** Reads task and checkpoint out of an `artifact_references` key. */
export function parseArtifactReference(key: Bytes): { task: string; id: string } {
  const task = elementsOf(key).at(-2) as string;
  return { task, id: formatUuid(key.subarray(key.length - UUID_BYTES)) };
}
