/**
 * The check of the traces of removals: every removed checkpoint has one entry in the audit trail, with the version and hash that it had, and
 * one tombstone with the same facts. Nothing of it is left, and nothing changes it later. No tombstone exists without a removal.
 */
import type { RemovedCheckpoint } from "../../../../../shared/protocol/retention.ts";
import { type Entry, type FinalTask, type Violation, versionName, WRITES_VERSION } from "../evidence.ts";

/** The first entry of the removal of each removed checkpoint, by id. */
export function removedIn(entries: readonly Entry[]): Map<string | null, Entry> {
  const removals = entries.filter(({ op }) => op === "remove").toReversed();
  return new Map(removals.map((entry) => [entry.checkpoint_id, entry]));
}

export function checkTombstones({ task, entries, removed, hashes }: FinalTask): Violation[] {
  const found: Violation[] = [];
  const report = (text: string, details: Record<string, unknown>): void => {
    found.push({ kind: "removal_incomplete", task, text, details });
  };
  const tombstones = new Map(removed.map((one) => [one.checkpoint_id, one]));
  const created = entries.filter(({ op }) => op === "create").map(({ checkpoint_id }) => checkpoint_id);
  const newest = new Map<string, Entry>();
  const gone = removedIn(entries);
  for (const entry of entries) {
    const { seq, op, checkpoint_id: id } = entry;
    if (id === null) continue;
    const isGone = (gone.get(id)?.seq ?? Number.POSITIVE_INFINITY) < seq;
    if (WRITES_VERSION.has(op)) {
      if (isGone) report("a removed checkpoint was written", { seq, checkpoint_id: id });
      newest.set(id, entry);
    }
    if (op !== "remove") continue;
    if (isGone) {
      report("a checkpoint was removed twice", { seq, checkpoint_id: id });
      continue;
    }
    const last = newest.get(id);
    if (last?.version !== entry.version || last.new_hash !== entry.old_hash || entry.new_hash !== null)
      report("the entry of a removal names another version than the last one", {
        seq,
        version: last ?? null,
      });
    const tombstone = tombstones.get(id);
    if (!isOf(tombstone, entry, 1 + created.indexOf(id)))
      report("a removed checkpoint has no tombstone with the facts of its entry", { entry, tombstone });
    const left = versionsLeft(hashes, entry);
    if (left.length > 0) report("versions of a removed checkpoint can be read", { seq, left });
  }
  for (const { checkpoint_id: id, audit_seq } of removed) {
    if (!gone.has(id)) report("a checkpoint was removed without an entry", { checkpoint_id: id, audit_seq });
  }
  return found;
}

function isOf(tombstone: RemovedCheckpoint | undefined, entry: Entry, position: number): boolean {
  return (
    tombstone !== undefined &&
    tombstone.version === entry.version &&
    tombstone.hash === entry.old_hash &&
    tombstone.seq === position &&
    tombstone.removed_at === entry.at &&
    tombstone.reason === entry.reason &&
    tombstone.retention_policy === entry.retention_policy &&
    tombstone.audit_seq === entry.seq
  );
}

function versionsLeft(hashes: FinalTask["hashes"], { checkpoint_id: id, version }: Entry): string[] {
  const names = Array.from({ length: version ?? 0 }, (_, i) => versionName(id, i + 1));
  return names.filter((name) => hashes.has(name));
}
