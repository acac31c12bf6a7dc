/**
 * Copies every checkpoint and audit entry to the folder of the mirror, after the commit and in the order of the feed. A step reads what the entries
 * of the feed name, writes it, and then moves the position; each part may run twice.
 */
import { sha256Hex } from "../integrity/canonical.ts";
import type { Format } from "../records/kv/format.ts";
import { type FeedEntry, readFeed } from "../records/outbox/feed.ts";
import type { Store } from "../store/store.ts";
import type { DiskSync } from "./disk-sync.ts";
import type { MirrorSeal } from "./encryption/mirror-seal.ts";
import type { MirrorWriter } from "./file-thread.ts";
import type { MirroredTask } from "./place.ts";
import {
  currentBoot,
  type FeedPlace,
  feedPlaceOf,
  type MirrorPosition,
  positionIn,
  startOf,
} from "./position.ts";
import { type Copied, copyTasks, READ_DEADLINE_MS, type WantedTask } from "./task-copy.ts";

/** A step of that many entries takes a quarter of the 200 ms in which a file must follow its commit. */
const ENTRIES_MAX = 256;
/** Checkpoints in one read, which are in memory together. */
const GROUP_MAX = 16;
/** Groups that are copied side by side: one is read while the files of the other are written. At most 32 MB. */
const GROUPS_AT_ONCE = 2;

export interface MirrorParts {
  readonly store: Store;
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

/** The identity of the mirror of a store. A folder without seal, or with another one, has another identity: every file of it is written again. */
export function mirrorIdentity(format: Format, seal: MirrorSeal | undefined): string {
  const store = storeIdentity(format);
  return seal === undefined ? store : `${store}+${seal.id}`;
}

/** `isLeader`: false if another follower may have written meanwhile; then the position stays, and the leader repeats the step. */
export async function stepMirror(
  parts: MirrorParts,
  isLeader: () => Promise<boolean>,
): Promise<MirrorStep | null> {
  const { store, files, disk, identity } = parts;
  const content = await files.prepare();
  const position = content === null ? null : positionIn(content);
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
  const copied = await copyLanes(parts, lanesOf(byTask(page.entries)));
  await moveTo(feedPlaceOf(newest));
  disk.written(feedPlaceOf(newest));
  return { ...copied, more: page.more };
}

/** Waits for all copies also after a failure, so that none writes into the next step. */
async function copyLanes({ store, files }: MirrorParts, lanes: readonly Lane[]): Promise<Copied> {
  const all: Copied = { committedMs: [], unsafe: [] };
  const left = lanes.values();
  const copyLeft = async () => {
    for (const lane of left)
      for (const group of lane) {
        const { committedMs, unsafe } = await copyTasks(store, files, group);
        all.committedMs.push(...committedMs);
        all.unsafe.push(...unsafe);
      }
  };
  const ends = await Promise.allSettled(Array.from({ length: GROUPS_AT_ONCE }, copyLeft));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
  return all;
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

/** Groups that are copied one after the other. No task is in two lanes, because its trail has one writer. */
type Lane = readonly (readonly WantedTask[])[];

function lanesOf(tasks: Iterable<[MirroredTask, ReadonlySet<string>]>): Lane[] {
  const lanes: Lane[] = [];
  let group: WantedTask[] = [];
  let count = 0;
  for (const [place, all] of tasks) {
    const ids = [...all];
    if (ids.length > GROUP_MAX) {
      lanes.push(slicesOf(ids).map((part) => [{ ...place, ids: part }]));
      continue;
    }
    if (count + ids.length > GROUP_MAX) {
      lanes.push([group]);
      [group, count] = [[], 0];
    }
    group.push({ ...place, ids });
    count += Math.max(1, ids.length);
  }
  if (group.length > 0) lanes.push([group]);
  return lanes;
}

function slicesOf(ids: readonly string[]): string[][] {
  return Array.from({ length: Math.ceil(ids.length / GROUP_MAX) }, (_, i) =>
    ids.slice(i * GROUP_MAX, (i + 1) * GROUP_MAX),
  );
}
