/** The rotation of keys by a watchdog: of root keys in one walk, and of bucket keys in steps. */
import { recordRewrap } from "../../../shared/records/encryption/encryption-acts.ts";
import { readBucketCounts } from "../../../shared/records/encryption/encryption-status.ts";
import {
  type BucketRotationStep,
  stepRotation,
} from "../../../shared/records/encryption/jobs/bucket-rotation.ts";
import { rewrapBuckets } from "../../../shared/records/encryption/jobs/root-rotation.ts";
import type { Lease } from "../../../shared/records/leader/lease.ts";
import type { EncryptionKeys } from "../../../shared/service-host/store/encryption.ts";
import { type EncryptorContext, guardOf, type Hold } from "./encryptor-context.ts";

/**
 * Between two walks over all bucket keys, while none needs another root key that can be used. A service with another setting may make some, and none of
 * this one's setting appears without a restart.
 */
const WALK_EVERY_MS = 60_000;
/** Between two pages of a walk. */
const REST_MS = 20;

export interface KeyRotation {
  /** Wraps bucket keys by the first root key, when that is due. */
  rewrapRoots(hold: Hold, signal: AbortSignal): Promise<void>;
  step(lease: Lease): Promise<BucketRotationStep["state"]>;
}

export function createKeyRotation(context: EncryptorContext, keys: EncryptionKeys): KeyRotation {
  const { clock, log, metrics, store } = context;
  let walkAtMs = clock.monotonic();
  /** As the last walk found it. */
  let isOpen = false;

  async function walk(lease: Lease, hold: Hold, signal: AbortSignal): Promise<void> {
    const found = await rewrapBuckets(
      { ...keys, guard: guardOf(lease) },
      {
        begin: () => beginRewrap(context, keys),
        rest: async () => {
          await clock.sleep(REST_MS, signal);
          return !signal.aborted && (await hold()) !== null;
        },
      },
    );
    isOpen = found.inRotation > 0;
    metrics.encryptionOtherRoots.set(found.others);
    metrics.encryptionRootsAway.set(found.away.size);
    metrics.encryptionKeysDamaged.set({ kind: "bucket" }, found.damaged);
    metrics.encryptionKeysRewrappedTotal.inc(found.rewrapped);
    for (const [root_key, error] of found.away)
      log.warn({ root_key, error }, "bucket keys need a root key that cannot be used, and wait for it");
    if (found.rewrapped > 0)
      log.info(
        { rewrapped: found.rewrapped, others: found.others, damaged: found.damaged },
        "bucket keys were wrapped by the first root key",
      );
    // Each walk asks for a root key that is away once, so it is found soon when it is back.
    if (found.away.size === 0) walkAtMs = clock.monotonic() + WALK_EVERY_MS;
  }

  return {
    async rewrapRoots(hold, signal) {
      if (clock.monotonic() < walkAtMs) return;
      const lease = await hold();
      if (lease !== null) await walk(lease, hold, signal);
    },
    async step(lease) {
      const nowMs = clock.now();
      const done = await stepRotation({ ...keys, store, guard: guardOf(lease), nowMs, isOpen });
      const { state, rewrapped, record } = done;
      metrics.encryptionKeysRewrappedTotal.inc(rewrapped);
      if (record === null) metrics.encryptionKeysDamaged.set({ kind: "data" }, 0);
      if (record?.phase === "waiting") metrics.encryptionKeysDamaged.set({ kind: "data" }, record.damaged);
      if (state !== "more") isOpen = false;
      return state;
    },
  };
}

async function beginRewrap({ store, clock }: EncryptorContext, keys: EncryptionKeys): Promise<void> {
  const { bucket_keys_of_other_roots: others } = await readBucketCounts(store, keys);
  const rootKey = keys.ring.buckets.firstRoot;
  await recordRewrap(store, { service: "watchdog", rootKey, keys: others, nowMs: clock.now() });
}
