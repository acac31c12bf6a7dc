/** Rotations of bucket keys in tests. */

import {
  readEncryptionState,
  writeEncryptionState,
} from "../../../shared/records/encryption/encryption-state.ts";
import {
  type BucketRotation,
  type BucketRotationStep,
  stepRotation,
} from "../../../shared/records/encryption/jobs/bucket-rotation.ts";
import { dataKeysKey } from "../../../shared/records/encryption/keys/key-record.ts";
import { keyPlaceOf } from "../../../shared/records/encryption/keys/place.ts";
import type { Store } from "../../../shared/store/store.ts";

const WRITE = { label: "test", deadlineMs: 20_000, onUnknown: "safe" } as const;

/** As an operator does, without the act. */
export async function requestBuckets(store: Store): Promise<void> {
  await store.transact(WRITE, async (tx) => {
    const state = (await readEncryptionState(tx))!;
    writeEncryptionState(tx, { ...state, rotations: state.rotations + 1 });
  });
}

/** The keys of tasks `task-0` and so on, without rows: a command that makes them for its rows is slow in great numbers. */
export async function addTaskKeys(
  { engine, ring }: Pick<BucketRotation, "engine" | "ring">,
  tenant: string,
  count: number,
): Promise<void> {
  await ring.prepare(keyPlaceOf(tenant, null));
  for (let from = 0; from < count; from += 500)
    await engine.transact(WRITE, async (tx) => {
      for (let n = from; n < Math.min(count, from + 500); n += 1) {
        const place = keyPlaceOf(tenant, `task-${n}`);
        tx.set(dataKeysKey(place), ring.fresh(place)!.row);
      }
    });
}

type Rotated = Pick<BucketRotation, "store" | "engine" | "ring"> & Partial<BucketRotation>;

/** One step, with no other watchdog. */
export function stepBuckets(rotation: Rotated): Promise<BucketRotationStep> {
  return stepRotation({ guard: async () => {}, nowMs: Date.now(), isOpen: false, ...rotation });
}

/** Steps until nothing is left to do now. */
export async function rotateBuckets(rotation: Rotated) {
  for (let [rewrapped, steps] = [0, 0]; ; ) {
    const done = await stepBuckets(rotation);
    rewrapped += done.rewrapped;
    steps += 1;
    const { state, record } = done;
    if (state !== "more") return { rewrapped, steps, state, record };
  }
}
