/**
 * The rotation of root keys: all bucket keys are wrapped by the first root key of the setting, and an operator may then remove the others from it. A bucket key
 * that has its new form is passed, so after a crash the next walk does what is left. A root key that cannot be used keeps its own bucket keys, and no others.
 */
import { sameBytes } from "../../../store/same-bytes.ts";
import { type Bytes, type KeyRange, type KeyValue, StoreError } from "../../../store/store.ts";
import { after, systemKeys } from "../../kv/keyspace.ts";
import { parseBucketKey } from "../keys/encryption-keys.ts";
import { type BucketRecord, decodeBucket, encodeBucket } from "../keys/key-record.ts";
import { ownerOfTenant } from "../keys/place.ts";
import type { Rotating } from "./rotation-record.ts";

const READ = { label: "plan_root_rotation", deadlineMs: 5_000 } as const;
const WRITE = { label: "rotate_root_key", deadlineMs: 5_000, priority: "batch", onUnknown: "safe" } as const;
/** Bucket keys that one transaction writes. A source of root keys may be asked twice for each. */
const PAGE = 50;

export interface RewrappedBuckets {
  readonly rewrapped: number;
  /** Those that still need another root key. */
  readonly others: number;
  /** Those that were changed or moved, and stay as they are. */
  readonly damaged: number;
  /** The root keys that could not be used, with the problem. */
  readonly away: ReadonlyMap<string, StoreError>;
  /** Owners with more than one bucket key. */
  readonly inRotation: number;
}

export interface RootRotation {
  /** Called before the first bucket key is written, and not at all while none can be unwrapped and wrapped. */
  readonly begin?: () => Promise<void>;
  /** Called between two pages. False: the walk ends. */
  readonly rest?: () => Promise<boolean>;
}

interface Walk {
  rewrapped: number;
  others: number;
  damaged: number;
  inRotation: number;
  readonly away: Map<string, StoreError>;
  /** The owner of the last row, and how many of its rows were met. */
  owner: { readonly tenant: string | null; rows: number } | null;
  isBegun: boolean;
}

interface Rewrap {
  readonly key: Bytes;
  readonly before: Bytes;
  readonly next: Bytes;
}

/** Throws StoreError `unavailable` if the first root key cannot be used. */
export async function rewrapBuckets(
  rotating: Rotating,
  { begin = async () => {}, rest = async () => true }: RootRotation = {},
): Promise<RewrappedBuckets> {
  const { engine } = rotating;
  const walk: Walk = {
    ...{ rewrapped: 0, others: 0, damaged: 0, inRotation: 0 },
    ...{ away: new Map(), owner: null, isBegun: false },
  };
  const { begin: first, end } = systemKeys.bucketKeys();
  for (let from = first; ; ) {
    const range: KeyRange = { begin: from, end };
    const { rows, more } = await engine.read(READ, (reader) => reader.getRange(range, { limit: PAGE }));
    const rewraps: Rewrap[] = [];
    for (const row of rows) {
      const rewrap = await rewrapOf(rotating, walk, row);
      if (rewrap !== null) rewraps.push(rewrap);
    }
    if (rewraps.length > 0 && !walk.isBegun) await begin();
    walk.isBegun ||= rewraps.length > 0;
    if (rewraps.length > 0) await write(rotating, walk, rewraps);
    const last = rows.at(-1);
    if (!more || last === undefined || !(await rest())) return walk;
    from = after(last.key);
  }
}

/** null: the row stays as it is. */
async function rewrapOf({ ring }: Rotating, walk: Walk, { key, value }: KeyValue): Promise<Rewrap | null> {
  const { tenant } = parseBucketKey(key);
  if (walk.owner?.tenant !== tenant) walk.owner = { tenant, rows: 0 };
  walk.owner.rows += 1;
  if (walk.owner.rows === 2) walk.inRotation += 1;
  const record = decodeBucket(value);
  if (record?.root === ring.buckets.firstRoot) return null;
  if (record === null) {
    walk.damaged += 1;
    return null;
  }
  walk.others += 1;
  const owner = ownerOfTenant(tenant);
  const secret = await unwrapped({ ring }, walk, { record, tenant });
  if (secret === null) return null;
  const { created_at } = record;
  const next = encodeBucket({ ...(await ring.buckets.wrapped(owner, record.id, secret)), created_at });
  return { key, before: value, next };
}

/** null: it cannot be unwrapped now. A root key that does not answer is asked once in a walk. */
async function unwrapped(
  { ring }: Pick<Rotating, "ring">,
  walk: Walk,
  { record, tenant }: { readonly record: BucketRecord; readonly tenant: string | null },
): Promise<Bytes | null> {
  if (walk.away.has(record.root)) return null;
  try {
    const secret = await ring.buckets.unwrap(ownerOfTenant(tenant), record);
    if (secret === null) walk.damaged += 1;
    return secret;
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "unavailable") throw error;
    walk.away.set(record.root, error);
    return null;
  }
}

/** A row that was changed in the meantime waits for the next walk. */
async function write({ engine, guard }: Rotating, walk: Walk, rewraps: readonly Rewrap[]): Promise<void> {
  const { value: written } = await engine.transact(WRITE, async (tx) => {
    await guard(tx);
    const now = await tx.getMany(rewraps.map(({ key }) => key));
    const same = rewraps.filter(({ before }, i) => sameBytes(now[i], before));
    for (const { key, next } of same) tx.set(key, next);
    return same.length;
  });
  walk.rewrapped += written;
  walk.others -= written;
}
