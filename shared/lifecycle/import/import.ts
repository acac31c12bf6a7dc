/**
 * Import: a task of another fleet or tenant begins here as its operator states it. It has no owner, its fence is above the origin's, and
 * until the last version is imported it accepts no other command. Its own trail states the import; the origin's trail is proved by the
 * hash of its newest entry.
 */
import type { UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import type { ImportBeginCommand, ImportEndCommand, ImportRemovedCommand } from "../../protocol/commands.ts";
import type { MissionStatus } from "../../protocol/mission.ts";
import { completedItems } from "../budget.ts";
import type { Decision } from "../decision.ts";
import type { TaskRecord } from "../task.ts";
import { type CheckpointChange, conflict, type Refusal } from "../transition.ts";

export interface ImportBegin {
  readonly origin: ImportBeginCommand["origin"];
}

export interface ImportedVersion {
  readonly index: number;
  readonly checkpoint: UnsealedCheckpoint;
  readonly change: CheckpointChange;
  readonly originHash: string;
}

export interface ImportedRemoval {
  readonly index: number;
  readonly removed: ImportRemovedCommand["removed"];
}

/** Records of the mission, as the audit entry states them: here, and in the trail of the origin. */
export interface ImportedRecords {
  readonly index: number;
  readonly records: readonly string[];
  readonly originRecords: readonly string[];
  /** null: the record of the mission itself is not among them. */
  readonly missionStatus: MissionStatus | null;
}

export interface ImportEnd {
  readonly state: ImportEndCommand["state"];
  readonly lastSuccessfulId: string | null;
  /** The records that the end of the import writes, as its audit entry states them. */
  readonly records: readonly string[];
}

const OPS: ReadonlySet<string> = new Set([
  "import_begin",
  "import_version",
  "import_removed",
  "import_records",
  "import_end",
]);

export function isOfImport({ type }: { readonly type: string }): boolean {
  return OPS.has(type);
}

export function isImporting({ origin }: Pick<TaskRecord, "origin">): boolean {
  return origin !== null && !origin.complete;
}

export function refuseImporting({ task_id, origin }: TaskRecord): Refusal {
  return conflict("importing", "the task is being imported", { task_id, ...progressOfImport(origin) });
}

export function importBegun(
  decision: Decision,
  before: TaskRecord | null,
  { origin }: ImportBegin,
): Decision | Refusal {
  const { task: taskId, fenceFloor = 0 } = decision.circumstances;
  if (before !== null) {
    const { fleet, tenant, digest, complete } = before.origin ?? {};
    const details = { task_id: taskId, origin_fleet: fleet, origin_tenant: tenant, digest, complete };
    return conflict("exists", "the task exists", details);
  }
  const { fleet, tenant, fence, audit_seq, audit_hash, digest, versions, records, source } = origin;
  return decision.add("import_begin", {
    facts: {
      origin_fleet: fleet,
      origin_tenant: tenant,
      origin_fence: fence,
      origin_seq: audit_seq,
      origin_hash: audit_hash,
      digest,
      versions,
      ...(records !== undefined && { record_count: records }),
      ...(source !== undefined && { source }),
    },
    event: {
      type: "TASK_IMPORT_BEGUN",
      data: {
        taskId,
        fromFleet: fleet,
        fromTenant: tenant,
        versions,
        fence: Math.max(fence, fenceFloor) + 1,
      },
    },
  });
}

export function versionImported(
  decision: Decision,
  before: TaskRecord,
  { index, checkpoint, change, originHash }: ImportedVersion,
): Decision | Refusal {
  const refused = notImporting(before) ?? notNext(before, index);
  if (refused !== null) return refused;
  const { metadata, execution_state } = checkpoint;
  const { checkpoint_id: checkpointId, agent_id: author, agent_type, seq, version } = metadata;
  return decision.add("import_version", {
    checkpoint: change,
    facts: {
      position: seq,
      phase: execution_state.phase,
      agent_type,
      author,
      items: completedItems(checkpoint),
      origin_hash: originHash,
    },
    event: {
      type: "CHECKPOINT_IMPORTED",
      data: { checkpointId, taskId: before.task_id, agentId: author, version, originHash },
    },
  });
}

export function removalImported(
  decision: Decision,
  before: TaskRecord,
  { index, removed }: ImportedRemoval,
): Decision | Refusal {
  const refused = notImporting(before) ?? notNext(before, index);
  if (refused !== null) return refused;
  const { checkpoint_id: id, version, hash, seq, reason, retention_policy } = removed;
  const { fallback_id, removed_at, removed_by, phase, agent_type, agent_id: author, items } = removed;
  return decision.add("import_removed", {
    checkpoint: { id, version, oldHash: hash, newHash: null },
    facts: {
      ...{ position: seq, phase, agent_type, author, items },
      ...{ fallback_id, reason, retention_policy, removed_at, removed_by },
    },
    event: {
      type: "CHECKPOINT_REMOVAL_IMPORTED",
      data: { checkpointId: id, taskId: before.task_id, version, reason },
    },
  });
}

export function recordsImported(
  decision: Decision,
  before: TaskRecord,
  { index, records, originRecords, missionStatus }: ImportedRecords,
): Decision | Refusal {
  const { length } = records;
  const refused = notImporting(before) ?? notNextRecords(before, index, length);
  if (refused !== null) return refused;
  return decision.add("import_records", {
    facts: {
      ...{ records, origin_records: originRecords, record_count: length },
      ...(missionStatus !== null && { mission_status: missionStatus }),
    },
    event: { type: "MISSION_RECORDS_IMPORTED", data: { taskId: before.task_id, records: length } },
  });
}

export function importEnded(
  decision: Decision,
  before: TaskRecord,
  { state, lastSuccessfulId, records }: ImportEnd,
): Decision | Refusal {
  const versions = before.origin?.versions ?? 0;
  const refused = notImporting(before) ?? notNextRecords(before, before.origin?.records ?? 0, 0);
  if (refused !== null) return refused;
  return decision.add("import_end", {
    facts: { state, last_successful: lastSuccessfulId, ...(records.length > 0 && { records }) },
    event: { type: "TASK_IMPORTED", data: { taskId: before.task_id, state, versions } },
  });
}

function notImporting(task: TaskRecord): Refusal | null {
  if (isImporting(task)) return null;
  const { task_id } = task;
  return conflict("not_importing", "the task is not being imported", { task_id });
}

/** Versions come one after the other, also from two programs that import the same task. */
function notNext({ task_id, origin }: TaskRecord, index: number): Refusal | null {
  const { imported, versions } = origin ?? { imported: 0, versions: 0 };
  if (imported === index && index <= versions) return null;
  const details = { task_id, ...progressOfImport(origin) };
  return conflict("not_importing", "another version is next in this import", details);
}

/** Records come after the last version. */
function notNextRecords(task: TaskRecord, index: number, count: number): Refusal | null {
  const { records = 0, imported_records: imported = 0, versions = 0 } = task.origin ?? {};
  const refused = notNext(task, versions);
  if (refused !== null || (imported === index && index + count <= records)) return refused;
  const details = { task_id: task.task_id, ...progressOfImport(task.origin) };
  return conflict("not_importing", "another record is next in this import", details);
}

function progressOfImport(origin: TaskRecord["origin"]): Record<string, unknown> {
  const { versions, imported, records, imported_records } = origin ?? {};
  return { versions, imported, ...(records !== undefined && { records, imported_records }) };
}
