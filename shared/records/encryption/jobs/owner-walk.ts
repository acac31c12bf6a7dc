/** The part of a rotation that wraps the data keys of one owner after the other. */
import {
  type Bytes,
  type KeyRange,
  type Reader,
  type Store,
  StoreError,
  type Tx,
} from "../../../store/store.ts";
import { readable } from "../../kv/codec.ts";
import { after, endingName, systemKeys, tenantKeys } from "../../kv/keyspace.ts";
import { BUCKET_KEYS_MAX, type BucketKeySet } from "../keys/bucket-keys.ts";
import { parseBucketKey } from "../keys/encryption-keys.ts";
import {
  type BucketRecord,
  bucketsOfRow,
  dataKeysKey,
  encodeBucket,
  rewrapDataKeys,
} from "../keys/key-record.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import { type KeyPlace, keyPlaceOf, ownerOfTenant } from "../keys/place.ts";
import { keyIdText } from "../sealed-value.ts";
import type { OwnerWalk, RotationRecord, WrappingAgain } from "./rotation-record.ts";

const READ = { label: "plan_rotation", deadlineMs: 5_000 } as const;
/** Rows of data keys that one step looks at. */
const ROWS_MAX = 100;
/** Bucket keys in one read. An owner has fewer. */
const BUCKETS_PAGE = 500;

/**
 * The newest of the earlier bucket keys, which an owner with damaged data keys keeps. Without a limit it would come to have as many as it may, and get no new
 * one. A backup that has a data key which was wrapped before all these has its bucket key too.
 */
export const KEPT_FOR_DAMAGED = BUCKET_KEYS_MAX / 2;

type Advance = (body: (tx: Tx) => Promise<RotationRecord | null>) => Promise<RotationRecord | null>;

interface Rotated {
  readonly rewrapped: number;
  readonly record: RotationRecord | null;
}

/** Wraps the next data keys again. null: all owners are done. */
export async function stepOwner(
  { engine, ring }: { readonly engine: Store; readonly ring: KeyRing },
  work: WrappingAgain,
  advance: Advance,
): Promise<Rotated | null> {
  const owner = work.owner ?? (await nextInRotation(engine, work.after));
  if (owner === null) return null;
  const place = ownerOfTenant(parseBucketKey(owner.row).tenant);
  const pass = (left: Partial<WrappingAgain>): WrappingAgain => ({
    ...{ ...work, ...left },
    ...{ after: owner.row, owner: null },
  });
  const buckets = await bucketsOf(ring, place);
  if (buckets === "unavailable") {
    const record = await advance(async () => pass({ unavailable: work.unavailable + 1 }));
    return { rewrapped: 0, record };
  }
  if (buckets === null) return { rewrapped: 0, record: await advance(async () => pass({})) };
  // It was changed or moved. What earlier ones wrapped is sound, so the owner gets another one, and its walk begins again.
  if (buckets.newest === null) {
    const fresh = await ring.buckets.fresh(place);
    const record = await advance(async (tx) =>
      (await addGeneration(tx, place, fresh, { isNewestSound: false })) ? { ...work, owner: null } : pass({}),
    );
    ring.buckets.forget(place);
    return { rewrapped: 0, record };
  }
  let rewrapped = 0;
  const record = await advance(async (tx) => {
    const page = await rewrapPage(tx, buckets, place, owner.done);
    rewrapped = page.rewrapped;
    const damaged = owner.damaged + page.damaged;
    if (page.next !== null) return { ...work, owner: { ...owner, done: page.next, damaged } };
    // A damaged row may be restored from a backup, and would need the key that wrapped it.
    await removeBefore(tx, place, owner.generation, damaged === 0 ? 0 : KEPT_FOR_DAMAGED);
    return pass({ damaged: work.damaged + damaged });
  });
  return { rewrapped, record };
}

/** null: the owner has none. */
async function bucketsOf(ring: KeyRing, owner: KeyPlace): Promise<BucketKeySet | null | "unavailable"> {
  try {
    return await ring.buckets.reload(owner);
  } catch (error) {
    if (error instanceof StoreError && error.kind === "unavailable") return "unavailable";
    throw error;
  }
}

/**
 * False: the owner has none, or as many as it may have, and its newest one stays in use. A walk over its data keys makes room, and is passed only while a root
 * key cannot be used. A newest one that was damaged gives its room: a backup brings it back at its own place.
 */
export async function addGeneration(
  tx: Tx,
  { tenant }: KeyPlace,
  fresh: BucketRecord,
  { isNewestSound }: { readonly isNewestSound: boolean },
): Promise<boolean> {
  const { rows } = await tx.getRange(systemKeys.bucketKeysOf(tenant), { limit: BUCKET_KEYS_MAX });
  const last = rows.at(-1);
  const isFull = rows.length === BUCKET_KEYS_MAX;
  if (last === undefined || (isFull && isNewestSound)) return false;
  if (isFull) tx.clear(last.key);
  tx.set(systemKeys.bucketKey(tenant, parseBucketKey(last.key).generation + 1), encodeBucket(fresh));
  return true;
}

/** The next owner that has more than one bucket key. */
async function nextInRotation(engine: Store, last: Bytes | null): Promise<OwnerWalk | null> {
  const { end } = systemKeys.bucketKeys();
  let earlier: string | null | undefined;
  for (let begin = endOfOwner(last); ; ) {
    const range: KeyRange = { begin, end };
    const { rows, more } = await engine.read(READ, (reader) =>
      reader.getRange(range, { limit: BUCKETS_PAGE }),
    );
    for (const { key } of rows) {
      const { tenant } = parseBucketKey(key);
      if (earlier === tenant) return beginOwner(engine, key, tenant);
      earlier = tenant;
    }
    const at = rows.at(-1);
    if (!more || at === undefined) return null;
    begin = after(at.key);
  }
}

async function beginOwner(engine: Store, row: Bytes, tenant: string | null): Promise<OwnerWalk> {
  const range = systemKeys.bucketKeysOf(tenant);
  const { rows } = await engine.read(READ, (reader) => reader.getRange(range, { limit: 1, reverse: true }));
  const { generation } = parseBucketKey(rows[0]?.key ?? row);
  return { row, generation, done: null, damaged: 0 };
}

/** Where the rows of the owners after this one begin. */
export function endOfOwner(row: Bytes | null): Bytes {
  if (row === null) return systemKeys.bucketKeys().begin;
  return systemKeys.bucketKeysOf(parseBucketKey(row).tenant).end;
}

interface PageOfKeys {
  readonly rewrapped: number;
  readonly damaged: number;
  /** The key of the last row; null: there are no more. */
  readonly next: Bytes | null;
}

async function rewrapPage(
  tx: Tx,
  buckets: BucketKeySet,
  owner: KeyPlace,
  done: Bytes | null,
): Promise<PageOfKeys> {
  const { places, next } = await nextPlaces(tx.snapshot, owner, done);
  // Only rows that change are read so that the commit conflicts: new tasks get keys all the time.
  const old = places.filter(({ row }) => !isWrappedByNewest(buckets, row));
  const rows = await tx.getMany(old.map(({ place }) => dataKeysKey(place)));
  let [rewrapped, damaged] = [0, 0];
  for (const [i, { place }] of old.entries()) {
    const row = rows[i];
    if (row === undefined) continue;
    const again = rewrappedRow(buckets, place, row);
    if (again === null) damaged += 1;
    else tx.set(dataKeysKey(place), again);
    if (again !== null) rewrapped += 1;
  }
  return { rewrapped, damaged, next };
}

interface PlaceRow {
  readonly place: KeyPlace;
  readonly row: Bytes;
}

/** The keys of the owner itself are the first, then those of its tasks. */
async function nextPlaces(
  reader: Reader,
  owner: KeyPlace,
  done: Bytes | null,
): Promise<{ readonly places: readonly PlaceRow[]; readonly next: Bytes | null }> {
  const own = done === null ? await reader.get(dataKeysKey(owner)) : undefined;
  const first = own === undefined ? [] : [{ place: owner, row: own }];
  const { tenant } = owner;
  if (tenant === null) return { places: first, next: null };
  const { begin, end } = tenantKeys(tenant).dataKeysOfTasks();
  const range = { begin: done === null ? begin : after(done), end };
  const { rows, more } = await reader.getRange(range, { limit: ROWS_MAX });
  const tasks = rows.map(({ key, value }) => ({ place: keyPlaceOf(tenant, endingName(key)), row: value }));
  return { places: [...first, ...tasks], next: more ? (rows.at(-1)?.key ?? null) : null };
}

function isWrappedByNewest({ newest }: BucketKeySet, row: Bytes): boolean {
  if (newest === null) return false;
  const id = keyIdText(newest.id);
  return readable(() => bucketsOfRow(row).every((wrappedBy) => wrappedBy === id)) ?? false;
}

/** null: the row was changed or moved, or the bucket key that wrapped it was. */
function rewrappedRow({ newest, byId }: BucketKeySet, place: KeyPlace, row: Bytes): Bytes | null {
  return newest === null ? null : readable(() => rewrapDataKeys(byId, newest, place, row));
}

/**
 * Since the walk over its data keys began, when this generation was there, none was wrapped by an earlier one: a transaction that makes a data key conflicts
 * with a new bucket key.
 */
async function removeBefore(tx: Tx, owner: KeyPlace, generation: number, kept: number): Promise<void> {
  const range = systemKeys.bucketKeysOf(owner.tenant);
  const { rows } = await tx.getRange(range, { limit: BUCKETS_PAGE });
  const earlier = rows.filter(({ key }) => parseBucketKey(key).generation < generation);
  for (const { key } of earlier.slice(0, Math.max(0, earlier.length - kept))) tx.clear(key);
}
