/**
 * Reads the versions that feed entries name. A version is the current row of its checkpoint, or was moved to
 * the earlier versions when the next one replaced it. Both rows are read, since the version may move at any
 * time.
 */
import type { Reader } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { type FeedEntry, isOfVersion } from "../outbox/feed.ts";
import { type Opened, openRow } from "./body.ts";

/** null: the entry names no version, or one that was removed. */
export type VersionFound = Opened | null;

export async function readVersions(reader: Reader, entries: readonly FeedEntry[]): Promise<VersionFound[]> {
  const asked = entries.filter(isOfVersion);
  const rows = await reader.getMany(
    asked.flatMap(({ tenant, task, checkpoint, version }) => {
      const keys = tenantKeys(tenant);
      return [keys.checkpoint(task, checkpoint), keys.version(task, checkpoint, version)];
    }),
  );
  const rowOf = new Map(asked.map((entry, i) => [entry as FeedEntry, rows[2 * i + 1] ?? rows[2 * i]]));
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
