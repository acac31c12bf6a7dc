/** The task after a transition of its import. */

import type { TaskRecord, Work } from "../task.ts";
import { type AuditedChange, nullableFact, numberFact, textFact } from "../trail/facts.ts";

export const IMPORT_RULES = {
  import_begin: begunImport,
  import_version: importedVersion,
  import_removed: importedVersion,
  import_records: importedRecords,
  import_end: (task: TaskRecord, change: AuditedChange): Partial<TaskRecord> => ({
    work: endedWork(textFact(change, "state")),
    last_successful_id: nullableFact(change, "last_successful"),
    origin: task.origin && { ...task.origin, complete: true },
  }),
};

function endedWork(state: string): Work {
  return state === "completed" || state === "failed" || state === "cancelled"
    ? { kind: "ended", as: state }
    : { kind: "open" };
}

/** The next fence: agents of the origin stay superseded. */
function begunImport({ fence }: TaskRecord, change: AuditedChange): Partial<TaskRecord> {
  return {
    fence: Math.max(fence, numberFact(change, "origin_fence")) + 1,
    origin: {
      fleet: nullableFact(change, "origin_fleet"),
      tenant: textFact(change, "origin_tenant"),
      audit_seq: numberFact(change, "origin_seq"),
      audit_hash: textFact(change, "origin_hash"),
      digest: textFact(change, "digest"),
      ...(change.facts.source === "mirror" && { source: "mirror" as const }),
      versions: numberFact(change, "versions"),
      imported: 0,
      ...(typeof change.facts.record_count === "number" && {
        records: change.facts.record_count,
        imported_records: 0,
      }),
      complete: false,
    },
  };
}

/** A version of the newest checkpoint, or the first one of the next, or the next one as removed. No earlier owner of it may be taken for the next one. */
function importedVersion(task: TaskRecord, change: AuditedChange): Partial<TaskRecord> {
  const seq = numberFact(change, "position");
  return {
    seq,
    owned_seq: seq,
    latest_id: change.checkpointId,
    phase: textFact(change, "phase"),
    agent_id: textFact(change, "author"),
    agent_type: textFact(change, "agent_type"),
    completed_items: Math.max(task.completed_items, numberFact(change, "items")),
    origin: task.origin && { ...task.origin, imported: task.origin.imported + 1 },
  };
}

function importedRecords({ origin }: TaskRecord, change: AuditedChange): Partial<TaskRecord> {
  const imported = (origin?.imported_records ?? 0) + numberFact(change, "record_count");
  return { origin: origin && { ...origin, imported_records: imported } };
}
