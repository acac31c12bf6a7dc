/** Imports without a file: reads a task of one repository as an export does, and imports it into another one. */
import type { Checkpoint, UnsealedCheckpoint } from "../../../shared/protocol/checkpoint.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { type SendOptions, send } from "./records.ts";

export interface ReadVersion {
  readonly hash: string;
  readonly checkpoint: UnsealedCheckpoint;
}

export interface ReadTask {
  readonly origin: Record<string, unknown>;
  /** All versions of one checkpoint before the next checkpoint. */
  readonly versions: readonly ReadVersion[];
  readonly end: Record<string, unknown>;
}

export async function readTask(
  repository: CheckpointRepository,
  tenant: string,
  task: string,
): Promise<ReadTask> {
  const { task: head, entries } = await repository.audit(tenant, { task_id: task, from_seq: 1, limit: 500 });
  const versions: ReadVersion[] = [];
  for (const { entry } of entries) {
    const { checkpoint_id: id, version, new_hash: hash } = JSON.parse(entry);
    if (typeof hash !== "string") continue;
    versions.push({ hash, checkpoint: withoutHash(await repository.get(tenant, id, version, true)) });
  }
  versions.sort((a, b) => a.checkpoint.metadata.seq - b.checkpoint.metadata.seq);
  const { fence, audit_seq, audit_hash, state, last_successful_id } = head;
  const origin = { fleet: "fleet-a", tenant, fence, audit_seq, audit_hash, digest: "0".repeat(64) };
  const ended = ["completed", "failed", "cancelled"].includes(state) ? state : "active";
  return {
    origin: { ...origin, versions: versions.length },
    versions,
    end: { state: ended, last_successful_id },
  };
}

export function withoutHash(checkpoint: Checkpoint): UnsealedCheckpoint {
  const { hash: _hash, ...compliance } = checkpoint.compliance;
  return { ...checkpoint, compliance };
}

export async function importTask(
  repository: CheckpointRepository,
  { origin, versions, end }: ReadTask,
  by: SendOptions,
): Promise<void> {
  await send(repository, "import_begin", { origin }, by);
  for (const [index, version] of versions.entries()) {
    await send(repository, "import_version", { index, ...version }, by);
  }
  await send(repository, "import_end", end, by);
}
