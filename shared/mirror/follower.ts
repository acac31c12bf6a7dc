/**
 * The follower: brings the folder up to date with the feed of the store, step by step in commit order. A step writes for each checkpoint in it the
 * version that is current now, so a repeated step does no harm, and then moves the position. A corrupt row leaves the file alone: it may be the last
 * sound copy. The file of a checkpoint that retention removed is removed too.
 */
import { sha256Hex } from "../integrity/canonical.ts";
import { readAudit } from "../records/audit/audit.ts";
import type { Found } from "../records/checkpoint/body.ts";
import { findInTask, readTask } from "../records/checkpoint/lookup.ts";
import type { Format } from "../records/kv/format.ts";
import { tenantKeys } from "../records/kv/keyspace.ts";
import { type FeedEntry, readFeed, readFeedEntry } from "../records/outbox/feed.ts";
import type { Bytes, Reader, Store } from "../store/store.ts";
import type { MirrorFolder, MirrorPosition } from "./folder.ts";
import type { MirroredTask } from "./place.ts";
import { UnsafePlace } from "./private-file.ts";

const ENTRIES_MAX = 64;
/** Entries of an audit trail in one read. */
const TRAIL_SLICE = 64;
const READ_DEADLINE_MS = 3_000;

export interface MirrorStep {
  /** The times of the commits whose files were written, in milliseconds since the epoch. */
  readonly committedMs: readonly number[];
  readonly more: boolean;
  /** Places that are not plain files or folders; their tasks are left out. */
  readonly unsafe: readonly UnsafePlace[];
}

/** The identity of a store in the folder. It says nothing about the key from which it is made. */
export function storeIdentity(format: Format): string {
  return sha256Hex(Buffer.from(`mirror ${format.message_key}`)).slice(0, 32);
}

/** `isLeader`: false if another follower may have written meanwhile; then the position stays, and the leader repeats the step. */
export async function stepMirror(
  { store, folder, identity }: { store: Store; folder: MirrorFolder; identity: string },
  isLeader: () => Promise<boolean>,
): Promise<MirrorStep | null> {
  await folder.prepare();
  const position = await folder.position();
  const page = await store.read({ label: "mirror_feed", deadlineMs: READ_DEADLINE_MS }, async (reader) =>
    readFeed(reader, await startOf(reader, position, identity), ENTRIES_MAX),
  );
  const newest = page.entries.at(-1);
  if (newest === undefined) return null;
  const committedMs: number[] = [];
  const unsafe: UnsafePlace[] = [];
  const done: MirroredTask[] = [];
  for (const [place, ids] of byTask(page.entries)) {
    try {
      committedMs.push(...(await mirrorTask(store, folder, place, ids)));
      done.push(place);
    } catch (error) {
      if (!(error instanceof UnsafePlace)) throw error;
      unsafe.push(error);
    }
  }
  await folder.sync(done);
  const next = { store: identity, after: Buffer.from(newest.key).toString("hex"), entry: textOf(newest) };
  if (await isLeader()) await folder.setPosition(next);
  return { committedMs, more: page.more, unsafe };
}

/** null: from the beginning, because the position is of another store, or of a later state of this one than a restored backup has. */
async function startOf(
  reader: Reader,
  position: MirrorPosition | null,
  identity: string,
): Promise<Bytes | null> {
  if (position?.store !== identity) return null;
  const key = Buffer.from(position.after, "hex");
  const entry = await readFeedEntry(reader, key);
  return entry !== null && textOf(entry) === position.entry ? key : null;
}

function textOf({ tenant, task, checkpoint, version }: FeedEntry): string {
  return JSON.stringify([tenant, task, checkpoint, version]);
}

function byTask(entries: readonly FeedEntry[]): Iterable<[MirroredTask, Set<string>]> {
  const tasks = new Map<string, [MirroredTask, Set<string>]>();
  for (const { tenant, task, checkpoint } of entries) {
    const key = `${tenant}/${task}`;
    const known = tasks.get(key) ?? [{ tenant, task }, new Set<string>()];
    tasks.set(key, known);
    if (checkpoint !== null) known[1].add(checkpoint);
  }
  return tasks.values();
}

/** The trail first: it names the hash of every file that follows it. */
async function mirrorTask(
  store: Store,
  folder: MirrorFolder,
  place: MirroredTask,
  ids: ReadonlySet<string>,
): Promise<number[]> {
  await folder.makeTask(place);
  await folder.appendAudit(place, (seq) => trailFrom(store, place, seq));
  const committedMs: number[] = [];
  const written = new Set<string>();
  for (const id of ids) {
    const found = await currentVersion(store, place, id);
    if (!found.sound) {
      if (found.removed !== undefined) await folder.remove(place, id);
      continue;
    }
    await folder.write(place, found.stored);
    committedMs.push(Date.parse(found.stored.metadata.committed_at));
    written.add(id);
  }
  const head = await store.read({ label: "mirror_head", deadlineMs: READ_DEADLINE_MS }, (reader) =>
    readTask(reader, place.tenant, place.task),
  );
  const latest = head?.latest_id ?? null;
  if (latest !== null && written.has(latest)) await folder.setLatest(place, latest);
  return committedMs;
}

async function* trailFrom(store: Store, { tenant, task }: MirroredTask, seq: number): AsyncGenerator<string> {
  for (let from = seq; ; ) {
    const { entries, more } = await store.read(
      { label: "mirror_audit", deadlineMs: READ_DEADLINE_MS },
      (reader) => readAudit(reader, tenantKeys(tenant), task, from, TRAIL_SLICE),
    );
    for (const { entry } of entries) yield entry;
    const last = entries.at(-1);
    if (last === undefined || !more) return;
    from = last.seq + 1;
  }
}

function currentVersion(store: Store, { tenant, task }: MirroredTask, id: string): Promise<Found> {
  return store.read({ label: "mirror_checkpoint", deadlineMs: READ_DEADLINE_MS }, (reader) =>
    findInTask(reader, tenantKeys(tenant), task, id),
  );
}
