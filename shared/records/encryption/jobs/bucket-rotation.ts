/**
 * The rotation of bucket keys, in steps of a bounded size: each owner gets a new one, its data keys are wrapped by it, and its earlier bucket keys are removed.
 * Data keys stay, and so do rows. Each step is one transaction, which checks the lease and moves the record of the rotation.
 *
 * A service that has not noticed a new bucket key cannot wrap a data key by an earlier one: its commit conflicts with the new one.
 */
import { sameBytes } from "../../../store/same-bytes.ts";
import type { Bytes, Store, Tx } from "../../../store/store.ts";
import { systemKeys } from "../../kv/keyspace.ts";
import { type EncryptionState, readEncryptionState, writeEncryptionState } from "../encryption-state.ts";
import { parseBucketKey } from "../keys/encryption-keys.ts";
import { ownerOfTenant } from "../keys/place.ts";
import { addGeneration, endOfOwner, stepOwner } from "./owner-walk.ts";
import {
  type AddingBuckets,
  type Rotating,
  type RotationRecord,
  readRotation,
  type StoredRotation,
  type WaitingRotation,
  type WrappingAgain,
  writeRotation,
} from "./rotation-record.ts";

const READ = { label: "plan_rotation", deadlineMs: 5_000 } as const;
const WRITE = { label: "rotate_keys", deadlineMs: 5_000, priority: "batch", onUnknown: "safe" } as const;
/** Owners that get a bucket key in one step: the source of root keys is asked for each at once. */
const OWNERS_MAX = 20;
const ROWS_MAX = 1_000;
const RETRY_MS_MIN = 60_000;
const RETRY_MS_MAX = 3_600_000;

export interface BucketRotation extends Rotating {
  /** With encryption: the record of the rotation is encrypted. */
  readonly store: Store;
  readonly nowMs: number;
  /** Owners have more than one bucket key: a rotation without a record, such as one of an earlier version, is ended. */
  readonly isOpen: boolean;
}

export interface BucketRotationStep {
  /** `waiting`: keys are left that cannot be wrapped now. */
  readonly state: "more" | "idle" | "waiting";
  readonly rewrapped: number;
  /** The record after the step. */
  readonly record: RotationRecord | null;
}

interface Seen extends StoredRotation {
  readonly state: EncryptionState | null;
}

/** Throws StoreError `unavailable` while the first root key cannot be used. */
export async function stepRotation(rotation: BucketRotation): Promise<BucketRotationStep> {
  const seen = await rotation.store.read(
    READ,
    async (reader): Promise<Seen> => ({
      ...(await readRotation(reader)),
      state: await readEncryptionState(reader),
    }),
  );
  const due = dueWork(seen, rotation);
  if (due === null)
    return { state: seen.record === null ? "idle" : "waiting", rewrapped: 0, record: seen.record };
  if (due.phase === "adding") return addBuckets(rotation, seen, due);
  const done = await stepOwner(rotation, due, (body) => advance(rotation, seen, body));
  if (done !== null) return { state: "more", rewrapped: done.rewrapped, record: done.record };
  return endWalk(rotation, seen, due);
}

/** null: nothing is to be done now. */
function dueWork(
  { record, bytes, state }: Seen,
  { nowMs, isOpen }: BucketRotation,
): AddingBuckets | WrappingAgain | null {
  if (state === null) return null;
  if (record !== null && record.phase !== "waiting") return record;
  if (state.rotations > state.rotated) return { phase: "adding", rotation: state.rotations, after: null };
  const pass = record === null ? 1 : record.pass + 1;
  const walk = { phase: "wrapping", pass, after: null, owner: null, damaged: 0, unavailable: 0 } as const;
  if (record !== null) return isRetryDue(record, nowMs) ? { ...walk, rotation: record.rotation } : null;
  // What a damaged record knew is lost, so all owners are walked, and the first step replaces it.
  return isOpen || bytes !== undefined ? { ...walk, rotation: state.rotated } : null;
}

/** A time that is too far away was written by a clock that ran ahead. */
function isRetryDue({ retry_at }: WaitingRotation, nowMs: number): boolean {
  const left = Date.parse(retry_at) - nowMs;
  return !(left > 0 && left <= RETRY_MS_MAX);
}

/** New bucket keys for the next owners. New data keys are wrapped by them at once. */
async function addBuckets(
  rotation: BucketRotation,
  seen: Seen,
  work: AddingBuckets,
): Promise<BucketRotationStep> {
  const { ring } = rotation;
  const { rows, isLast } = await nextOwners(rotation.engine, work.after);
  const owners = rows.map((row) => ownerOfTenant(parseBucketKey(row).tenant));
  const fresh = await Promise.all(owners.map((owner) => ring.buckets.fresh(owner)));
  const next = isLast
    ? ({ ...work, phase: "wrapping", pass: 1, after: null, owner: null, damaged: 0, unavailable: 0 } as const)
    : { ...work, after: rows.at(-1) ?? work.after };
  const record = await advance(rotation, seen, async (tx) => {
    for (const [i, owner] of owners.entries())
      await addGeneration(tx, owner, fresh[i]!, { isNewestSound: true });
    if (isLast) await markRotated(tx, work.rotation);
    return next;
  });
  for (const owner of owners) ring.buckets.forget(owner);
  return { state: "more", rewrapped: 0, record };
}

async function markRotated(tx: Tx, rotation: number): Promise<void> {
  const state = await readEncryptionState(tx);
  if (state !== null) writeEncryptionState(tx, { ...state, rotated: Math.max(state.rotated, rotation) });
}

/** Of each owner after the one of the row `after`, one row. */
async function nextOwners(
  engine: Store,
  after: Bytes | null,
): Promise<{ readonly rows: readonly Bytes[]; readonly isLast: boolean }> {
  const range = { begin: endOfOwner(after), end: systemKeys.bucketKeys().end };
  const { rows, more } = await engine.read(READ, (reader) => reader.getRange(range, { limit: ROWS_MAX }));
  const byOwner = new Map(rows.map(({ key }) => [parseBucketKey(key).tenant, key]));
  const isLast = !more && byOwner.size <= OWNERS_MAX;
  return { rows: [...byOwner.values()].slice(0, OWNERS_MAX), isLast };
}

/** The walk has passed all owners. */
async function endWalk(
  rotation: BucketRotation,
  seen: Seen,
  { rotation: number, pass, damaged, unavailable }: WrappingAgain,
): Promise<BucketRotationStep> {
  const retryMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** (pass - 1));
  const retry_at = new Date(rotation.nowMs + retryMs).toISOString();
  const waiting = { phase: "waiting", rotation: number, pass, damaged, unavailable, retry_at } as const;
  const isComplete = damaged + unavailable === 0;
  const record = await advance(rotation, seen, async () => (isComplete ? null : waiting));
  return { state: isComplete ? "idle" : "waiting", rewrapped: 0, record };
}

/**
 * One transaction of the rotation, from the record that was seen to the one that `body` returns. Another instance that was faster, or an earlier attempt
 * whose result was unknown, has changed the record: then nothing is done, and the next step begins with the new one.
 */
async function advance(
  { store, guard }: BucketRotation,
  { bytes }: Seen,
  body: (tx: Tx) => Promise<RotationRecord | null>,
): Promise<RotationRecord | null> {
  const { value } = await store.transact(WRITE, async (tx) => {
    await guard(tx);
    const now = await readRotation(tx);
    if (!sameBytes(now.bytes, bytes)) return now.record;
    const next = await body(tx);
    writeRotation(tx, next);
    return next;
  });
  return value;
}
