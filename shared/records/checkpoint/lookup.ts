/**
 * Reads checkpoints: by id, the latest sound one of a task, and a task's history. Every checkpoint is
 * verified before it is returned; corrupt ones are named beside the sound ones, so that the caller can tell
 * them apart (guarantee 7).
 */

import type { TaskRecord } from "../../lifecycle/task.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { CheckpointPage, CorruptCheckpoint, LatestResult } from "../../protocol/checkpoint-pages.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { RemovedCheckpoint } from "../../protocol/retention.ts";
import type { Bytes, Reader } from "../../store/store.ts";
import { isQuarantined } from "../corruption/quarantine.ts";
import { type CursorKind, openCursor, sealCursor } from "../kv/cursor.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { decodeTombstone, removedView, type Tombstone } from "../retention/tombstone.ts";
import { decodeHead } from "../task/head.ts";
import { type Found, type Opened, openRow, type Sound } from "./body.ts";
import { decodePlace, type Place } from "./checkpoint-location.ts";
import { decodeOrder, type OrderEntry, readOrder } from "./order.ts";

/** Rows read at once: enough to keep the store busy, few enough to stop early at the size of a reply. */
const SLICE = 64;

export async function readTask(reader: Reader, tenant: string, task: string): Promise<TaskRecord | null> {
  const value = await reader.get(tenantKeys(tenant).task(task));
  return value ? decodeHead(value) : null;
}

/** The location of a checkpoint, or null when there is no such checkpoint. */
export async function placeOf(reader: Reader, keys: TenantKeys, id: string): Promise<Place | null> {
  const value = await reader.get(keys.id(id));
  return value === undefined ? null : decodePlace(value);
}

function lost(id: string | null, reason: string, version: number | null = null): Opened {
  return { sound: false, corrupt: { checkpoint_id: id, version, reason } };
}

/** The current version of a checkpoint of this task. */
export async function findInTask(reader: Reader, keys: TenantKeys, task: string, id: string): Promise<Found> {
  const place = await placeOf(reader, keys, id);
  if (place === null || place.task !== task) return lost(id, "the entry with its task and seq is missing");
  return findAt(reader, keys, id, place);
}

/** The current version of the checkpoint that a command on the task names. Throws NOT_FOUND or CORRUPT. */
export async function soundInTask(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  id: string,
): Promise<Checkpoint> {
  const place = await placeOf(reader, keys, id);
  if (place === null || place.task !== task) {
    throw new FleetError("NOT_FOUND", "the task has no such checkpoint", {
      details: { checkpoint_id: id, task_id: task },
    });
  }
  return requireSound(await findAt(reader, keys, id, place)).checkpoint;
}

/** Throws NOT_FOUND for a removed checkpoint, CORRUPT for a corrupt one. */
export function requireSound(found: Found): Sound {
  if (found.sound) return found;
  if (found.removed !== undefined) throw removedError(found.removed);
  throw new FleetError("CORRUPT", "the stored checkpoint does not verify", { details: { ...found.corrupt } });
}

export function removedError(removed: RemovedCheckpoint): FleetError {
  const { checkpoint_id, task_id, reason } = removed;
  const message =
    reason === "shredded"
      ? "two persons had the task of the checkpoint shredded"
      : "the checkpoint was removed by retention";
  return new FleetError("NOT_FOUND", message, { details: { checkpoint_id, task_id, removed } });
}

/**
 * The current version of a checkpoint whose location is known: the version that the order of its task names.
 */
export async function findAt(
  reader: Reader,
  keys: TenantKeys,
  id: string,
  { task, seq }: Place,
): Promise<Found> {
  const [order, row] = await reader.getMany([keys.order(task, seq), keys.checkpoint(task, id)]);
  const entry = decodeOrder(order);
  if (entry?.id === id) return findEntry(reader, keys, task, entry, row);
  const tombstone = decodeTombstone(await reader.get(keys.tombstone(task, seq)));
  if (entry === null && tombstone?.id === id) return removedAt(task, seq, tombstone);
  return lost(id, "its entry in the order of the task is lost");
}

function removedAt(task: string, seq: number, tombstone: Tombstone): Found {
  return { sound: false, removed: removedView(task, seq, tombstone) };
}

/** A version that was found corrupt before stays quarantined until an operator decides. */
async function findEntry(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  entry: OrderEntry,
  row: Bytes | undefined,
): Promise<Opened> {
  const found = await openRow(reader, keys, task, entry.id, row, entry);
  return found.sound ? unlessQuarantined(reader, keys, task, found) : found;
}

async function unlessQuarantined(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  found: Sound,
): Promise<Opened> {
  const { checkpoint_id: id, version } = found.checkpoint.metadata;
  const mark = await reader.get(keys.quarantine(task, id, version));
  return isQuarantined(mark) ? lost(id, "quarantined", version) : found;
}

/** One version of a checkpoint, the current one when `version` is absent; null when it never existed. */
export async function findVersion(
  reader: Reader,
  tenant: string,
  id: string,
  version: number | undefined,
): Promise<{ task: string; found: Found } | null> {
  const keys = tenantKeys(tenant);
  const place = await placeOf(reader, keys, id);
  if (place === null) return null;
  const { task, seq } = place;
  const entry = decodeOrder(await reader.get(keys.order(task, seq)));
  if (version === undefined || entry === null || entry.version === version) {
    return { task, found: await findAt(reader, keys, id, place) };
  }
  if (version > entry.version) return null;
  const found = await openRow(reader, keys, task, id, await reader.get(keys.version(task, id, version)), {
    version,
  });
  return { task, found: found.sound ? await unlessQuarantined(reader, keys, task, found) : found };
}

/**
 * The newest sound checkpoint. From a corrupt one it falls back to the last successful state of that one, as
 * the order table names it. Throws CORRUPT at the end of that chain instead of guessing: an operator must
 * decide.
 */
export async function findLatest(reader: Reader, tenant: string, task: string): Promise<LatestResult> {
  const keys = tenantKeys(tenant);
  const head = await readTask(reader, tenant, task);
  if (head === null) return { checkpoint: null, passed_over: [] };
  const passedOver: CorruptCheckpoint[] = [];
  // The task was taken, but it has no checkpoint yet.
  if (head.latest_id === null) return { checkpoint: null, passed_over: [] };
  let newestRemoved: RemovedCheckpoint | undefined;
  let next: string | null = head.latest_id;
  while (next !== null && !passedOver.some((corrupt) => corrupt.checkpoint_id === next)) {
    const found = await findInTask(reader, keys, task, next);
    if (found.sound) return { checkpoint: found.checkpoint, passed_over: passedOver };
    if (found.removed === undefined) passedOver.push(found.corrupt);
    else newestRemoved ??= found.removed;
    next = await fallbackOf(reader, keys, next);
  }
  if (newestRemoved !== undefined && passedOver.length === 0)
    return { checkpoint: null, passed_over: [], removed: newestRemoved };
  throw new FleetError("CORRUPT", "no sound checkpoint can be reached; an operator must decide", {
    details: { task_id: task, corrupt: passedOver },
  });
}

/** Like {@link findLatest}, with the CORRUPT as a value, because the corrupt checkpoints that it names may still be restored. */
export async function foundLatest(
  reader: Reader,
  tenant: string,
  task: string,
): Promise<LatestResult | FleetError> {
  try {
    return await findLatest(reader, tenant, task);
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return error;
    throw error;
  }
}

export function corruptInLatest(result: LatestResult | FleetError): readonly CorruptCheckpoint[] {
  return result instanceof FleetError
    ? ((result.details.corrupt ?? []) as CorruptCheckpoint[])
    : result.passed_over;
}

/**
 * The last successful state that a checkpoint names, from its order entry, or what is left of it, from its
 * tombstone; null: none, or the entry is lost.
 */
export async function fallbackOf(reader: Reader, keys: TenantKeys, id: string): Promise<string | null> {
  const place = await placeOf(reader, keys, id);
  if (place === null) return null;
  const { task, seq } = place;
  const [order, tombstone] = await reader.getMany([keys.order(task, seq), keys.tombstone(task, seq)]);
  return (decodeOrder(order) ?? decodeTombstone(tombstone))?.fallback ?? null;
}

/** Opens the checkpoints of many order entries of one task in one round of reads. */
export async function findMany(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  places: readonly { seq: number; entry: OrderEntry | null }[],
): Promise<Found[]> {
  const named = places.flatMap(({ entry }) => (entry === null ? [] : [entry]));
  const rows = await reader.getMany(named.map(({ id }) => keys.checkpoint(task, id)));
  const rowOf = new Map(named.map((entry, i) => [entry, rows[i]]));
  const empty = places.filter(({ entry }) => entry === null);
  const tombstones = await reader.getMany(empty.map(({ seq }) => keys.tombstone(task, seq)));
  const tombstoneOf = new Map(empty.map(({ seq }, i) => [seq, decodeTombstone(tombstones[i])]));
  return Promise.all(
    places.map(async ({ seq, entry }): Promise<Found> => {
      if (entry !== null) return findEntry(reader, keys, task, entry, rowOf.get(entry));
      const tombstone = tombstoneOf.get(seq) ?? null;
      if (tombstone !== null) return removedAt(task, seq, tombstone);
      return lost(null, `the entry of position ${seq} in the order of the task is lost`);
    }),
  );
}

/** A page of a task's checkpoints in commit order, the removed ones too, limited by count and by size. */
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
  const removed: RemovedCheckpoint[] = [];
  const listed = () => checkpoints.length + corrupt.length + removed.length;
  let bytes = 0;
  let more = next >= 1 && next <= head.seq;
  while (more && listed() < query.limit) {
    const limit = Math.min(SLICE, query.limit - listed());
    const span = newestFirst ? { from: 1, to: next } : { from: next, to: head.seq };
    const places = await readOrder(reader, keys, task, { ...span, limit, reverse: newestFirst });
    const found = await findMany(reader, keys, task, places);
    for (const [i, one] of found.entries()) {
      if (one.sound && bytes + one.bytes > LIMITS.reply_bytes_max && checkpoints.length > 0) {
        return { checkpoints, corrupt, removed, cursor: sealCursor(kind, String(next)) };
      }
      if (one.sound) {
        checkpoints.push(one.checkpoint);
        bytes += one.bytes;
      } else if (one.removed !== undefined) removed.push(one.removed);
      else corrupt.push(one.corrupt);
      const { seq } = places[i] as { seq: number };
      next = newestFirst ? seq - 1 : seq + 1;
    }
    more = next >= 1 && next <= head.seq;
  }
  return { checkpoints, corrupt, removed, ...(more && { cursor: sealCursor(kind, String(next)) }) };
}
