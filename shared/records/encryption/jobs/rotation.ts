/**
 * Rotation without a stop. Each walk is repeatable: a row that has its new form already is passed, so a crash only means that the next walk begins again.
 *
 * - Of root keys: all bucket keys are wrapped by the first root key of the setting. An operator may then remove the others from it.
 * - Of bucket keys: each owner gets a new one, all its data keys are wrapped by it, and the earlier bucket keys are removed. Data keys stay, and so do rows.
 */
import { DEFAULT_TENANT } from "../../../protocol/ids.ts";
import { sameBytes } from "../../../store/same-bytes.ts";
import type { Bytes, KeyRange, RangePage, Store, Tx } from "../../../store/store.ts";
import { UnreadableValue } from "../../kv/codec.ts";
import { after, endingName, systemKeys, tenantKeys } from "../../kv/keyspace.ts";
import { tenantAfter } from "../../kv/tenants.ts";
import { readEncryptionState, writeEncryptionState } from "../encryption-state.ts";
import { parseBucketKey } from "../keys/encryption-keys.ts";
import { bucketsOfRow, dataKeysKey, decodeBucket, encodeBucket, rewrapDataKeys } from "../keys/key-record.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import { type KeyPlace, keyPlaceOf, ownerOf, SYSTEM_PLACE } from "../keys/place.ts";
import { keyIdText } from "../sealed-value.ts";

const READ = { label: "plan_rotation", deadlineMs: 5_000 } as const;
const WRITE = { label: "rotate_keys", deadlineMs: 5_000, priority: "batch", onUnknown: "safe" } as const;
const PAGE = 200;

export interface Rotating {
  /** The store without encryption: wrapped keys are plain rows. */
  readonly engine: Store;
  readonly ring: KeyRing;
  /** Throws when this instance may no longer rotate. */
  readonly guard: (tx: Tx) => Promise<void>;
}

export interface Rewrapped {
  readonly rewrapped: number;
  /** Keys that were changed or moved, and stay as they are. */
  readonly damaged: number;
}

/**
 * Wraps every bucket key that another root key wrapped by the first one. `begin` is called before the first one is written, and not at all while none can
 * be unwrapped and wrapped. Throws StoreError `unavailable`.
 */
export async function rewrapBuckets(
  { engine, ring, guard }: Rotating,
  begin: () => Promise<void> = async () => {},
): Promise<Rewrapped> {
  let isBegun = false;
  let [rewrapped, damaged] = [0, 0];
  for await (const { key, value } of rowsIn(engine, systemKeys.bucketKeys())) {
    const record = decodeBucket(value);
    if (record?.root === ring.buckets.firstRoot) continue;
    const owner = ownerOfTenant(parseBucketKey(key).tenant);
    const secret = record === null ? null : await ring.buckets.unwrap(owner, record);
    if (record === null || secret === null) {
      damaged += 1;
      continue;
    }
    const { created_at } = record;
    const next = encodeBucket({ ...(await ring.buckets.wrapped(owner, record.id, secret)), created_at });
    if (!isBegun) await begin();
    isBegun = true;
    if (await replace(engine, guard, { key, before: value, next })) rewrapped += 1;
  }
  return { rewrapped, damaged };
}

/** Adds the bucket keys of a rotation that was requested. After a crash some owners get another one more, which is no harm. False: none was requested. */
export async function beginRotation(store: Store, rotating: Rotating): Promise<boolean> {
  const state = await store.read(READ, readEncryptionState);
  if (state === null || state.rotations <= state.rotated) return false;
  await addBuckets(rotating);
  await store.transact(WRITE, async (tx) => {
    await rotating.guard(tx);
    const now = await readEncryptionState(tx);
    if (now !== null) writeEncryptionState(tx, { ...now, rotated: Math.max(now.rotated, state.rotations) });
  });
  return true;
}

/** A new bucket key for each owner that has one. New data keys are wrapped by it at once. */
export async function addBuckets({ engine, ring }: Rotating): Promise<number> {
  const owners = new Set<string | null>();
  for await (const { key } of rowsIn(engine, systemKeys.bucketKeys())) owners.add(parseBucketKey(key).tenant);
  for (const tenant of owners) await ring.buckets.add(ownerOfTenant(tenant), { onlyFirst: false });
  return owners.size;
}

/** Wraps all data keys by the newest bucket key of their owner, and removes the earlier bucket keys. */
export async function rewrapDataKeysOfAll(rotating: Rotating): Promise<Rewrapped> {
  const { engine } = rotating;
  const sum = { rewrapped: 0, damaged: 0 };
  const rewrapAll = async (owner: KeyPlace, places: AsyncIterable<KeyPlace>): Promise<void> => {
    const newest = await newestGeneration(engine, owner);
    const before = sum.damaged;
    for await (const place of places) {
      const outcome = await rewrapPlace(rotating, place);
      if (outcome !== "same") sum[outcome] += 1;
    }
    // A damaged row may be restored from a backup, and would need the key that wrapped it.
    if (newest !== null && sum.damaged === before) await removeBefore(rotating, owner, newest);
  };
  await rewrapAll(SYSTEM_PLACE, placesOf(engine, null));
  for (let tenant: string | null = DEFAULT_TENANT; tenant !== null; ) {
    await rewrapAll(keyPlaceOf(tenant, null), placesOf(engine, tenant));
    const at: string = tenant;
    tenant = await engine.read(READ, (reader) => tenantAfter(reader, at));
  }
  return sum;
}

async function* placesOf(engine: Store, tenant: string | null): AsyncGenerator<KeyPlace> {
  if (tenant === null) return yield SYSTEM_PLACE;
  yield keyPlaceOf(tenant, null);
  for await (const { key } of rowsIn(engine, tenantKeys(tenant).dataKeysOfTasks()))
    yield keyPlaceOf(tenant, endingName(key));
}

type Outcome = "same" | keyof Rewrapped;

async function rewrapPlace({ engine, ring, guard }: Rotating, place: KeyPlace): Promise<Outcome> {
  const key = dataKeysKey(place);
  const row = await engine.read(READ, (reader) => reader.get(key));
  if (row === undefined) return "same";
  const buckets = await ring.buckets.reload(ownerOf(place));
  if (buckets === null || buckets.newest === null) return "damaged";
  try {
    if (bucketsOfRow(row).every((id) => id === keyIdText(buckets.newest!.id))) return "same";
    const next = rewrapDataKeys(buckets.byId, buckets.newest, place, row);
    if (next === null) return "damaged";
    return (await replace(engine, guard, { key, before: row, next })) ? "rewrapped" : "same";
  } catch (error) {
    if (error instanceof UnreadableValue) return "damaged";
    throw error;
  }
}

async function newestGeneration(engine: Store, owner: KeyPlace): Promise<number | null> {
  const range = systemKeys.bucketKeysOf(owner.tenant);
  const { rows } = await engine.read(READ, (reader) => reader.getRange(range, { limit: 1, reverse: true }));
  return rows[0] === undefined ? null : parseBucketKey(rows[0].key).generation;
}

/**
 * Called after a walk that began when `generation` was there. Since then no data key was wrapped by an earlier one: a transaction that makes a data key
 * conflicts with a new bucket key.
 */
async function removeBefore({ engine, guard }: Rotating, owner: KeyPlace, generation: number): Promise<void> {
  await engine.transact(WRITE, async (tx) => {
    await guard(tx);
    const { rows } = await tx.getRange(systemKeys.bucketKeysOf(owner.tenant), { limit: PAGE });
    for (const { key } of rows) if (parseBucketKey(key).generation < generation) tx.clear(key);
  });
}

function ownerOfTenant(tenant: string | null): KeyPlace {
  return tenant === null ? SYSTEM_PLACE : keyPlaceOf(tenant, null);
}

/** False: the row was changed in the meantime. */
async function replace(
  engine: Store,
  guard: Rotating["guard"],
  { key, before, next }: { readonly key: Bytes; readonly before: Bytes; readonly next: Bytes },
): Promise<boolean> {
  const { value } = await engine.transact(WRITE, async (tx) => {
    await guard(tx);
    const now = await tx.get(key);
    if (!sameBytes(now, before)) return false;
    tx.set(key, next);
    return true;
  });
  return value;
}

async function* rowsIn(engine: Store, { begin, end }: KeyRange) {
  for (let from: Bytes | null = null; ; ) {
    const range: KeyRange = { begin: from === null ? begin : after(from), end };
    const page: RangePage = await engine.read(READ, (reader) => reader.getRange(range, { limit: PAGE }));
    yield* page.rows;
    const last = page.rows.at(-1);
    if (!page.more || last === undefined) return;
    from = last.key;
  }
}
