/**
 * Verifies tombstones: the checkpoint is gone with all its records, and an entry of the trail records the
 * removal. So a checkpoint that was deleted otherwise is found as lost.
 */

import type { AuditEntry } from "../../../lifecycle/replay.ts";
import { decodePlace } from "../../checkpoint/checkpoint-location.ts";
import { readable } from "../../kv/codec.ts";
import { decodeTombstone, type Tombstone } from "../../retention/tombstone.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "../trail/entries.ts";

/** By position; null: the tombstone is damaged. */
export async function readTombstones(
  { reader, keys, task }: TaskScrub,
  positions: readonly number[],
): Promise<ReadonlyMap<number, Tombstone | null>> {
  const values = await reader.getMany(positions.map((seq) => keys.tombstone(task, seq)));
  return new Map(
    positions.flatMap((seq, i) =>
      values[i] === undefined ? [] : [[seq, decodeTombstone(values[i])] as const],
    ),
  );
}

export async function verifyTombstone(
  scrub: TaskScrub,
  seq: number,
  tombstone: Tombstone | null,
): Promise<void> {
  const { reader, keys, task } = scrub;
  if (tombstone === null) {
    return scrub.note(ofTask("tombstone", `the tombstone at position ${seq} cannot be read`));
  }
  const { id, version, hash, auditSeq, reason, policy } = tombstone;
  const note = (details: string): void =>
    scrub.note({ kind: "tombstone", checkpoint_id: id, version, details });
  const [location, row, audit] = await reader.getMany([
    keys.id(id),
    keys.checkpoint(task, id),
    keys.audit(task, auditSeq),
  ]);
  const place = location === undefined ? null : readable(() => decodePlace(location));
  if (place?.task !== task || place.seq !== seq) note("the entry that says where it stands is lost or wrong");
  const rest = await Promise.all(
    [keys.versions(task, id), keys.chunks(task, id)].map((range) => reader.getRange(range, { limit: 1 })),
  );
  if (row !== undefined || rest.some(({ rows }) => rows.length > 0))
    note("records of the checkpoint are left");
  const entry = readEntry(audit)?.facts;
  // A damaged entry is found with its trail.
  if (audit !== undefined && entry === undefined) return;
  const isOwn =
    entry?.checkpoint_id === id &&
    entry.version === version &&
    entry.old_hash === hash &&
    entry.reason === reason &&
    entry.retention_policy === policy &&
    isRemoval(entry, seq, tombstone);
  if (!isOwn) note("no entry of the trail records the removal");
}

/** Of this fleet, or of the fleet from which the task was imported. */
function isRemoval(entry: AuditEntry, seq: number, { removedAt, by, fallback }: Tombstone): boolean {
  const { op, at, actor, position, fallback_id, removed_at, removed_by } = entry;
  if (op === "import_removed")
    return position === seq && fallback_id === fallback && removed_at === removedAt && removed_by === by;
  return op === "remove" && at === removedAt && (actor as { id?: unknown } | null)?.id === by;
}
