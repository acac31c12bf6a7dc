/**
 * Reads the versions that feed entries name. A version is the current row of its checkpoint, or was moved to
 * the earlier versions when the next one replaced it.
 */
import type { Bytes, Reader } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { type FeedEntry, isOfVersion } from "../outbox/feed.ts";
import { type Opened, openRow, versionInRow } from "./body.ts";

/** null: the entry names no version, or one that was removed. */
export type VersionFound = Opened | null;

export async function readVersions(reader: Reader, entries: readonly FeedEntry[]): Promise<VersionFound[]> {
  const asked = entries.filter(isOfVersion);
  const current = await reader.getMany(
    asked.map(({ tenant, task, checkpoint }) => tenantKeys(tenant).checkpoint(task, checkpoint)),
  );
  const rowOf = new Map<FeedEntry, Bytes | undefined>(asked.map((entry, i) => [entry, current[i]]));
  // The same snapshot, so no version can move between the two reads.
  const earlier = asked.filter(({ version }, i) => !isVersion(current[i], version));
  const rows = await reader.getMany(
    earlier.map(({ tenant, task, checkpoint, version }) =>
      tenantKeys(tenant).version(task, checkpoint, version),
    ),
  );
  for (const [i, entry] of earlier.entries()) rowOf.set(entry, rows[i] ?? rowOf.get(entry));
  return Promise.all(
    entries.map(async (entry) => {
      const row = rowOf.get(entry);
      if (!isOfVersion(entry) || row === undefined) return null;
      const { tenant, task, checkpoint, version } = entry;
      const found = await openRow(reader, tenantKeys(tenant), task, checkpoint, row);
      // The current row may be a later version, with its own entry, while this one was removed.
      return found.sound && found.checkpoint.metadata.version !== version ? null : found;
    }),
  );
}

function isVersion(row: Bytes | undefined, version: number): boolean {
  return row !== undefined && versionInRow(row) === version;
}
