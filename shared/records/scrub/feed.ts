/**
 * Verifies what the feed names: each task of a transition exists, and each indexed version has its entries in
 * the search index. So a task of which every record was deleted is found.
 */
import type { Bytes } from "../../store/store.ts";
import { readVersions } from "../checkpoint/versions.ts";
import { decode, readable } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import {
  type FeedEntry,
  type FollowedEntry,
  isOfVersion,
  readFeedRows,
  type VersionEntry,
} from "../outbox/feed.ts";
import { coverKey, decodeCover, entryKeys } from "../search/index-entries.ts";
import { type IndexState, indexKey } from "../search/index-state.ts";
import { ofTask, type ScrubStep } from "./scrub-reader.ts";

/** The number of entries in one read. */
const SLICE = 32;

/** Returns the key after which the next call continues; null: the feed is verified. */
export async function verifyFeed(step: ScrubStep, from: Bytes | null): Promise<Bytes | null> {
  const { rows, more } = await readFeedRows(step.reader, from, SLICE);
  // The indexer fails at an unreadable entry, and operators notice.
  const entries = rows.flatMap(({ key, entry }) => (entry === null ? [] : [{ key, ...entry }]));
  const lost = await verifyTasks(step, entries);
  await verifyIndexed(
    step,
    entries.filter((entry) => !lost.has(nameOf(entry))),
  );
  return more ? (rows.at(-1)?.key ?? null) : null;
}

function nameOf({ tenant, task }: FeedEntry): string {
  return `${tenant}/${task}`;
}

/** Returns the tasks that do not exist. */
async function verifyTasks(step: ScrubStep, entries: readonly FollowedEntry[]): Promise<ReadonlySet<string>> {
  const tasks = [...new Map(entries.map((entry) => [nameOf(entry), entry])).values()];
  const heads = await step.reader.getMany(tasks.map(({ tenant, task }) => tenantKeys(tenant).task(task)));
  const lost = new Set<string>();
  for (const [i, entry] of tasks.entries()) {
    if (heads[i] !== undefined) continue;
    const { tenant, task } = entry;
    lost.add(nameOf(entry));
    // A task with a trail or an order is found by its name, and so is its lost head.
    const keys = tenantKeys(tenant);
    const rest = await Promise.all(
      [keys.auditRange(task), keys.orderRange(task)].map((rows) => step.reader.getRange(rows, { limit: 1 })),
    );
    if (rest.some(({ rows }) => rows.length > 0)) continue;
    step.noteOnce(
      tenant,
      task,
      ofTask("head", "the feed has transitions of the task, and all its records are lost"),
    );
  }
  return lost;
}

async function verifyIndexed(step: ScrubStep, entries: readonly FollowedEntry[]): Promise<void> {
  const { reader } = step;
  const value = await reader.get(indexKey());
  // Without its state the index fails at every search.
  const index = value === undefined ? null : readable(() => decode<IndexState>(value));
  const cursor = index?.state === "ready" && index.clearing === null ? index.cursor : null;
  if (!(cursor instanceof Uint8Array)) return;
  for (const entry of entries) {
    if (isOfVersion(entry) && Buffer.compare(entry.key, cursor) <= 0) await verifyEntries(step, entry);
  }
}

async function verifyEntries(step: ScrubStep, entry: VersionEntry): Promise<void> {
  const { reader } = step;
  const { tenant, checkpoint: checkpoint_id, version } = entry;
  const keys = tenantKeys(tenant);
  const value = await reader.get(coverKey(keys, checkpoint_id));
  const cover = value === undefined ? null : readable(() => decodeCover(value));
  // A later version has replaced the entries of this one.
  if (cover !== null && cover.version > version) return;
  const isReadable = cover !== null && Object.values(cover).every(isPartOfKey);
  const rows = isReadable ? await reader.getMany(entryKeys(keys, checkpoint_id, cover)) : [];
  // All entries of a checkpoint have one value.
  const areEqual = rows.length > 0 && rows.every((row) => isEqual(row, value));
  const isWhole = cover?.version === version && cover.task === entry.task && areEqual;
  if (isWhole || !(await isSound(step, entry))) return;
  const details = "entries of the search index are lost or differ; fleet index rebuild writes them again";
  step.noteOnce(tenant, entry.task, { ...ofTask("index", details), checkpoint_id, version });
}

function isEqual(a: Bytes | undefined, b: Bytes | undefined): boolean {
  return a !== undefined && b !== undefined && Buffer.compare(a, b) === 0;
}

function isPartOfKey(value: unknown): boolean {
  return typeof value === "string" || Number.isSafeInteger(value);
}

/** Corrupt versions are not indexed. */
async function isSound({ reader }: ScrubStep, entry: VersionEntry): Promise<boolean> {
  const [found] = await readVersions(reader, [entry]);
  return found?.sound === true;
}
