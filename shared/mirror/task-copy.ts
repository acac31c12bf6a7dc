/** Copies tasks as they are in the store now: the new entries of their trails, and the current versions of some of their checkpoints. */

import { entryHash } from "../integrity/chain.ts";
import { readAudit } from "../records/audit/audit.ts";
import { type CurrentBytes, readCurrentBytes } from "../records/checkpoint/current-bytes.ts";
import { readTask } from "../records/checkpoint/lookup.ts";
import { tenantKeys } from "../records/kv/keyspace.ts";
import type { Reader, Store } from "../store/store.ts";
import type { TrailEnd } from "./audit-file.ts";
import { fileContent } from "./checkpoint-file.ts";
import type { MirrorWriter } from "./file-thread.ts";
import type { TaskFiles } from "./files.ts";
import type { MirroredTask } from "./place.ts";

export const READ_DEADLINE_MS = 3_000;
/** Entries of one trail in one read. */
const TRAIL_SLICE = 256;

export interface WantedTask extends MirroredTask {
  readonly ids: readonly string[];
}

export interface Copied {
  readonly committedMs: number[];
  readonly unsafe: string[];
}

/** What the copy needs of an audit entry. */
interface EntryFacts {
  readonly at: string;
  /** The hash of the entry before it, hex. */
  readonly prev: string;
}

interface Slice {
  /** The entries after the end; null: the end is no entry of this trail. */
  readonly entries: readonly string[] | null;
  readonly committedMs: readonly number[];
  readonly more: boolean;
}

const NO_PART_OF_THE_TRAIL: Slice = { entries: null, committedMs: [], more: true };
const NOTHING_MORE: Slice = { entries: [], committedMs: [], more: false };

/** The trail of a task is complete before the first of its files is written. */
export async function copyTasks(
  store: Store,
  files: MirrorWriter,
  tasks: readonly WantedTask[],
): Promise<Copied> {
  const committedMs: number[] = [];
  const unsafe: string[] = [];
  for (let left = tasks; left.length > 0; ) {
    const ends = await files.trailEnds(left);
    const sound: { task: WantedTask; end: TrailEnd }[] = [];
    for (const [i, task] of left.entries()) {
      const end = ends[i]!;
      if ("unsafe" in end) unsafe.push(end.unsafe);
      else sound.push({ task, end });
    }
    const read = await store.read({ label: "mirror_tasks", deadlineMs: READ_DEADLINE_MS }, (reader) =>
      Promise.all(sound.map(({ task, end }) => readChange(reader, task, end))),
    );
    const again: WantedTask[] = [];
    const changes: TaskFiles[] = [];
    for (const [i, { slice, change }] of read.entries()) {
      const { task, end } = sound[i]!;
      if (slice.entries === null) await files.setTrailAside(task, end);
      else {
        changes.push(change);
        committedMs.push(...slice.committedMs);
      }
      if (slice.entries === null || slice.more) again.push(task);
    }
    unsafe.push(...(await files.write(changes)));
    left = again;
  }
  return { committedMs, unsafe };
}

async function readChange(
  reader: Reader,
  { ids, ...place }: WantedTask,
  end: TrailEnd,
): Promise<{ slice: Slice; change: TaskFiles }> {
  const head = ids.length === 0 ? null : await readTask(reader, place.tenant, place.task);
  // An earlier step has copied the entries of all commits up to its time, and so often those of this one.
  const slice = isWholeTrail(end, head) ? NOTHING_MORE : await readSlice(reader, place, end);
  const trail = { end, entries: slice.entries ?? [], isLast: slice.entries !== null && !slice.more };
  if (!trail.isLast || ids.length === 0)
    return { slice, change: { ...place, trail, checkpoints: [], removed: [], latest: null } };
  const current = await readCurrentBytes(reader, place.tenant, place.task, ids);
  const newest = head?.latest_id ?? null;
  const latest = newest !== null && current.sound.has(newest) ? newest : null;
  return {
    slice,
    change: { ...place, trail, checkpoints: contentsOf(current), removed: current.removed, latest },
  };
}

/** Whether the trail ends where the head of its task says. */
function isWholeTrail(
  { seq, entry }: TrailEnd,
  head: { readonly audit_seq: number; readonly audit_hash: string } | null,
): boolean {
  if (head === null || entry === null || seq !== head.audit_seq) return false;
  return entryHash(entry) === head.audit_hash;
}

function contentsOf({ sound }: CurrentBytes): TaskFiles["checkpoints"] {
  return [...sound].map(([id, sealed]) => ({ id, content: fileContent(sealed) }));
}

async function readSlice(reader: Reader, { tenant, task }: MirroredTask, end: TrailEnd): Promise<Slice> {
  if (end.seq === null) return NO_PART_OF_THE_TRAIL;
  const keys = tenantKeys(tenant);
  const { entries, more } = await readAudit(reader, keys, task, end.seq + 1, TRAIL_SLICE);
  const facts = entries.map(({ entry }) => JSON.parse(entry) as EntryFacts);
  if (end.entry !== null && end.seq > 0 && facts[0]?.prev !== entryHash(end.entry)) {
    // Nothing follows the end, or another entry than its successor.
    const at = await readAudit(reader, keys, task, end.seq, 1);
    if (at.entries[0]?.entry !== end.entry) return NO_PART_OF_THE_TRAIL;
  }
  return {
    entries: entries.map(({ entry }) => entry),
    committedMs: facts.map(({ at }) => Date.parse(at)),
    more,
  };
}
