/**
 * Reading checkpoints: by id, the latest sound one of a task, and a task's history. Every checkpoint is verified before it leaves
 * here; what is corrupt is named beside what is sound, so that a caller can tell (guarantee 7).
 */
import type { Checkpoint } from "../protocol/checkpoint.ts";
import { FleetError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { CheckpointPage, CorruptCheckpoint, LatestResult, QueryParams } from "../protocol/queries.ts";
import type { Task } from "../protocol/task.ts";
import type { Reader } from "../store/store.ts";
import { type Found, openRow } from "./body.ts";
import { decode } from "./codec.ts";
import { type CursorKind, openCursor, sealCursor } from "./cursor.ts";
import { type TenantKeys, tenantKeys } from "./keyspace.ts";
import { readOrder } from "./order.ts";

/** Rows read at once: enough to keep the store busy, few enough to stop early at the size of a reply. */
const SLICE = 64;

export async function readTask(reader: Reader, tenant: string, task: string): Promise<Task | null> {
  const value = await reader.get(tenantKeys(tenant).task(task));
  return value ? decode<Task>(value) : null;
}

/** The task a checkpoint belongs to, or null when there is no such checkpoint. */
export async function taskOf(reader: Reader, tenant: string, id: string): Promise<string | null> {
  const owner = await reader.get(tenantKeys(tenant).id(id));
  return owner ? Buffer.from(owner).toString() : null;
}

/** One checkpoint whose task is known. A version that was found corrupt before stays refused until a person decides. */
export async function findInTask(reader: Reader, keys: TenantKeys, task: string, id: string): Promise<Found> {
  const found = await openRow(reader, keys, task, id, await reader.get(keys.checkpoint(task, id)));
  return found.sound ? await unlessQuarantined(reader, keys, task, found) : found;
}

async function unlessQuarantined(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  found: Found & { sound: true },
): Promise<Found> {
  const { checkpoint_id: id, version } = found.checkpoint.metadata;
  const mark = await reader.get(keys.quarantine(task, id, version));
  if (mark === undefined) return found;
  return { sound: false, corrupt: { checkpoint_id: id, version, reason: "quarantined" } };
}

/** One version of a checkpoint, the current one when `version` is absent; null when there is none. */
export async function findVersion(
  reader: Reader,
  tenant: string,
  id: string,
  version: number | undefined,
): Promise<{ task: string; found: Found } | null> {
  const keys = tenantKeys(tenant);
  const task = await taskOf(reader, tenant, id);
  if (task === null) return null;
  const now = await findInTask(reader, keys, task, id);
  if (version === undefined) return { task, found: now };
  if (now.sound && now.checkpoint.metadata.version === version) return { task, found: now };
  const row = await reader.get(keys.version(task, id, version));
  if (row === undefined) return null;
  const found = await openRow(reader, keys, task, id, row);
  return { task, found: found.sound ? await unlessQuarantined(reader, keys, task, found) : found };
}

/**
 * The newest checkpoint that verifies. From a corrupt one it goes to the checkpoint that it named as its last successful state,
 * as kept in the order table; where that chain ends, nothing is guessed: CORRUPT, a person decides.
 */
export async function findLatest(reader: Reader, tenant: string, task: string): Promise<LatestResult> {
  const keys = tenantKeys(tenant);
  const head = await readTask(reader, tenant, task);
  if (head === null) return { checkpoint: null, passed_over: [] };
  const passedOver: CorruptCheckpoint[] = [];
  let next: string | null = head.latest_id;
  while (next !== null && !passedOver.some((corrupt) => corrupt.checkpoint_id === next)) {
    const found = await findInTask(reader, keys, task, next);
    if (found.sound) return { checkpoint: found.checkpoint, passed_over: passedOver };
    passedOver.push(found.corrupt);
    next = await fallbackOf(reader, keys, task, next, head.seq);
  }
  throw new FleetError("CORRUPT", "no sound checkpoint can be reached; a person must decide", {
    details: { task_id: task, corrupt: passedOver },
  });
}

async function fallbackOf(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  id: string,
  newest: number,
): Promise<string | null> {
  for (let to = newest; to >= 1; to -= SLICE) {
    const from = Math.max(1, to - SLICE + 1);
    const { entries } = await readOrder(reader, keys, task, { from, to, limit: SLICE, reverse: true });
    const entry = entries.find((candidate) => candidate.id === id);
    if (entry) return entry.fallback;
  }
  return null;
}

/** Opens many checkpoints of one task in one round of reads. */
async function findMany(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  ids: readonly string[],
): Promise<Found[]> {
  const rows = await reader.getMany(ids.map((id) => keys.checkpoint(task, id)));
  return Promise.all(
    ids.map(async (id, i) => {
      const found = await openRow(reader, keys, task, id, rows[i]);
      return found.sound ? unlessQuarantined(reader, keys, task, found) : found;
    }),
  );
}

/** A task's checkpoints in the order in which they were committed, a page at a time, by count and by size. */
export async function readHistory(
  reader: Reader,
  tenant: string,
  query: QueryParams<"history">,
): Promise<CheckpointPage> {
  const keys = tenantKeys(tenant);
  const task = query.task_id;
  const kind: CursorKind = `history/${tenant}/${task}/${query.order}`;
  const head = await readTask(reader, tenant, task);
  if (head === null)
    throw new FleetError("NOT_FOUND", "there is no such task", { details: { task_id: task } });
  const newestFirst = query.order === "newest";
  let next = query.cursor ? Number(openCursor(kind, query.cursor)) : newestFirst ? head.seq : 1;

  const checkpoints: Checkpoint[] = [];
  const corrupt: CorruptCheckpoint[] = [];
  let bytes = 0;
  let more = true;
  while (more && checkpoints.length + corrupt.length < query.limit) {
    const limit = Math.min(SLICE, query.limit - checkpoints.length - corrupt.length);
    const span = newestFirst ? { from: 1, to: next } : { from: next, to: head.seq };
    const page = await readOrder(reader, keys, task, { ...span, limit, reverse: newestFirst });
    const found = await findMany(
      reader,
      keys,
      task,
      page.entries.map(({ id }) => id),
    );
    for (const [i, one] of found.entries()) {
      if (one.sound && bytes + one.bytes > LIMITS.reply_bytes_max && checkpoints.length > 0) {
        return { checkpoints, corrupt, cursor: sealCursor(kind, String(next)) };
      }
      if (one.sound) {
        checkpoints.push(one.checkpoint);
        bytes += one.bytes;
      } else {
        corrupt.push(one.corrupt);
      }
      const { seq } = page.entries[i] as { seq: number };
      next = newestFirst ? seq - 1 : seq + 1;
    }
    more = page.more && page.entries.length > 0 && next >= 1 && next <= head.seq;
  }
  return { checkpoints, corrupt, ...(more && { cursor: sealCursor(kind, String(next)) }) };
}
