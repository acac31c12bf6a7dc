/** Imports without a file: reads a task of one repository as an export does, and imports it into another one. */
import type { Checkpoint, UnsealedCheckpoint } from "../../../shared/protocol/checkpoint.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { NewestRecords } from "../../../shared/transfer/record-verifier.ts";
import { type SendOptions, send } from "./records.ts";

export interface ReadVersion {
  readonly hash: string;
  readonly checkpoint: UnsealedCheckpoint;
}

export interface ReadRecord {
  readonly name: string;
  readonly hash: string;
  /** Base64. */
  readonly bytes: string;
}

export interface ReadTask {
  readonly origin: Record<string, unknown>;
  /** All versions of one checkpoint before the next checkpoint. */
  readonly versions: readonly ReadVersion[];
  /** Of the mission. */
  readonly records: readonly ReadRecord[];
  readonly end: Record<string, unknown>;
}

export async function readTask(
  repository: CheckpointRepository,
  tenant: string,
  task: string,
): Promise<ReadTask> {
  const { task: head, entries } = await repository.audit(tenant, { task_id: task, from_seq: 1, limit: 500 });
  const versions: ReadVersion[] = [];
  const newest = new NewestRecords();
  for (const { entry } of entries) {
    newest.add(JSON.parse(entry));
    const { checkpoint_id: id, version, new_hash: hash } = JSON.parse(entry);
    if (typeof hash !== "string") continue;
    versions.push({ hash, checkpoint: withoutHash(await repository.get(tenant, id, version, true)) });
  }
  versions.sort((a, b) => a.checkpoint.metadata.seq - b.checkpoint.metadata.seq);
  const { fence, audit_seq, audit_hash, state, last_successful_id } = head;
  const origin = { fleet: "fleet-a", tenant, fence, audit_seq, audit_hash, digest: "0".repeat(64) };
  const ended = ["completed", "failed", "cancelled"].includes(state) ? state : "active";
  const page = await repository.missions.records(tenant, { mission_id: task });
  const records = page.records.map(({ name, bytes }) => ({
    ...{ name, bytes },
    hash: newest.hashes.get(name) as string,
  }));
  const ofMission = records.length > 0 && { records: records.length };
  return {
    origin: { ...origin, versions: versions.length, ...ofMission },
    versions,
    records,
    end: { state: ended, last_successful_id },
  };
}

export function withoutHash(checkpoint: Checkpoint): UnsealedCheckpoint {
  const { hash: _hash, ...compliance } = checkpoint.compliance;
  return { ...checkpoint, compliance };
}

export async function importTask(
  repository: CheckpointRepository,
  { origin, versions, records, end }: ReadTask,
  by: SendOptions,
): Promise<void> {
  await send(repository, "import_begin", { origin }, by);
  for (const [index, version] of versions.entries()) {
    await send(repository, "import_version", { index, ...version }, by);
  }
  for (let index = 0; index < records.length; index += 100) {
    await send(repository, "import_records", { index, records: records.slice(index, index + 100) }, by);
  }
  await send(repository, "import_end", end, by);
}
