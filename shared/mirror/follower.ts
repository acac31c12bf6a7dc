/**
 * Copies every checkpoint and audit entry to the folder of the mirror, after the commit and in the order of the feed. A step reads what the entries
 * of the feed name, writes it, and then moves the position; each part may run twice.
 */
import { sha256Hex } from "../integrity/canonical.ts";
import type { Format } from "../records/kv/format.ts";
import { type FeedEntry, readFeed } from "../records/outbox/feed.ts";
import type { Store } from "../store/store.ts";
import type { DiskSync } from "./disk-sync.ts";
import type { MirrorWriter } from "./file-thread.ts";
import type { MirrorFolder } from "./folder.ts";
import type { MirroredTask } from "./place.ts";
import { currentBoot, type FeedPlace, feedPlaceOf, type MirrorPosition, startOf } from "./position.ts";
import { copyTasks, READ_DEADLINE_MS, type WantedTask } from "./task-copy.ts";

/** A step of that many entries takes a quarter of the 200 ms in which a file must follow its commit. */
const ENTRIES_MAX = 256;
/** Checkpoints in one read, which are in memory together: at most 16 MB. */
const GROUP_MAX = 16;

export interface MirrorParts {
  readonly store: Store;
  readonly folder: MirrorFolder;
  readonly files: MirrorWriter;
  readonly disk: DiskSync;
  /** {@link storeIdentity} */
  readonly identity: string;
}

export interface MirrorStep {
  /** The times of the copied commits, in milliseconds since the epoch. */
  readonly committedMs: readonly number[];
  readonly more: boolean;
  /** Places that are not plain files or folders; their tasks are left out. */
  readonly unsafe: readonly string[];
}

/** The identity of a store in the folder. It says nothing about the key from which it is made. */
export function storeIdentity(format: Format): string {
  return sha256Hex(Buffer.from(`mirror ${format.message_key}`)).slice(0, 32);
}

/** `isLeader`: false if another follower may have written meanwhile; then the position stays, and the leader repeats the step. */
export async function stepMirror(
  parts: MirrorParts,
  isLeader: () => Promise<boolean>,
): Promise<MirrorStep | null> {
  const { store, folder, files, disk, identity } = parts;
  await files.prepare();
  const position = await folder.position();
  const here = { store: identity, boot: currentBoot() };
  const { start, page } = await store.read(
    { label: "mirror_feed", deadlineMs: READ_DEADLINE_MS },
    async (reader) => {
      const start = await startOf(reader, position, here);
      return { start, page: await readFeed(reader, start, ENTRIES_MAX) };
    },
  );
  if (start === null) disk.forget();
  const synced = disk.synced ?? (start === null ? null : (position?.synced ?? null));
  const newest = page.entries.at(-1);
  const moveTo = async (written: FeedPlace) => {
    if (await isLeader()) await files.setPosition({ ...here, written, synced } satisfies MirrorPosition);
  };
  if (newest === undefined) {
    if (position !== null && synced !== null && synced.after !== position.synced?.after)
      await moveTo(position.written);
    return null;
  }
  const committedMs: number[] = [];
  const unsafe: string[] = [];
  for (const group of groupsOf(byTask(page.entries))) {
    const copied = await copyTasks(store, files, group);
    committedMs.push(...copied.committedMs);
    unsafe.push(...copied.unsafe);
  }
  await moveTo(feedPlaceOf(newest));
  disk.written(feedPlaceOf(newest));
  return { committedMs, more: page.more, unsafe };
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

function* groupsOf(tasks: Iterable<[MirroredTask, ReadonlySet<string>]>): Generator<WantedTask[]> {
  let group: WantedTask[] = [];
  let count = 0;
  for (const [place, all] of tasks) {
    const ids = [...all];
    do {
      const part = ids.splice(0, GROUP_MAX - count);
      group.push({ ...place, ids: part });
      count += Math.max(1, part.length);
      if (count < GROUP_MAX) continue;
      yield group;
      group = [];
      count = 0;
    } while (ids.length > 0);
  }
  if (group.length > 0) yield group;
}
