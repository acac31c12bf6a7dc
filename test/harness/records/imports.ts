/** Imports without a file: reads a task of one repository as an export does, and imports it into another one. */
import type { Checkpoint, UnsealedCheckpoint } from "../../../shared/protocol/checkpoint.ts";
import type { FleetError } from "../../../shared/protocol/errors.ts";
import type { ExportLineOf } from "../../../shared/protocol/export-lines.ts";
import type { RemovedCheckpoint } from "../../../shared/protocol/retention.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { NewestRecords } from "../../../shared/transfer/record-verifier.ts";
import { type ExportedRemoval, RemovedCheckpoints } from "../../../shared/transfer/removed-checkpoints.ts";
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
  /** The checkpoints that retention removed. */
  readonly removed: readonly ExportedRemoval[];
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
  const gone = new RemovedCheckpoints();
  for (const { seq, entry } of entries) {
    newest.add(JSON.parse(entry));
    gone.add({ kind: "audit", seq, entry });
    const { checkpoint_id: id, version, new_hash: hash } = JSON.parse(entry);
    if (typeof hash !== "string") continue;
    const { checkpoint, lost } = await versionOf(repository, tenant, { id, version });
    if (checkpoint !== undefined) versions.push({ hash, checkpoint });
    gone.add(lost ?? { kind: "checkpoint", hash, checkpoint: { ...checkpoint } });
  }
  if (!gone.isWhole) throw new Error("a version is lost");
  const { removed } = gone;
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
    origin: { ...origin, versions: versions.length + removed.length, ...ofMission },
    versions,
    removed,
    records,
    end: { state: ended, last_successful_id },
  };
}

/** `lost`: the line of an export in place of a removed version. */
async function versionOf(
  repository: CheckpointRepository,
  tenant: string,
  { id, version }: { readonly id: string; readonly version: number },
): Promise<{ readonly checkpoint?: UnsealedCheckpoint; readonly lost?: ExportLineOf<"lost"> }> {
  try {
    return { checkpoint: withoutHash(await repository.get(tenant, id, version, { as_stored: true })) };
  } catch (error) {
    const { removed } = (error as FleetError).details as { removed?: RemovedCheckpoint };
    if (removed === undefined) throw error;
    const { audit_seq: removed_entry, fallback_id = null } = removed;
    const named = { checkpoint_id: id, version, reason: "removed" };
    return { lost: { kind: "lost", ...named, removed_entry, fallback_id } };
  }
}

export function withoutHash(checkpoint: Checkpoint): UnsealedCheckpoint {
  const { hash: _hash, ...compliance } = checkpoint.compliance;
  return { ...checkpoint, compliance };
}

export async function importTask(
  repository: CheckpointRepository,
  { origin, versions, removed, records, end }: ReadTask,
  by: SendOptions,
): Promise<void> {
  await send(repository, "import_begin", { origin }, by);
  const steps = [
    ...versions.map((version) => ({ seq: version.checkpoint.metadata.seq, version })),
    ...removed.map((one) => ({ seq: one.seq, one })),
  ].sort((a, b) => a.seq - b.seq);
  for (const [index, step] of steps.entries()) {
    if ("one" in step) await send(repository, "import_removed", { index, removed: step.one }, by);
    else await send(repository, "import_version", { index, ...step.version }, by);
  }
  for (let index = 0; index < records.length; index += 100) {
    await send(repository, "import_records", { index, records: records.slice(index, index + 100) }, by);
  }
  await send(repository, "import_end", end, by);
}
