/**
 * The background work of encryption at rest, in one watchdog at a time: encrypts the plain rows of a store from before its encryption, wraps bucket keys by
 * the first root key of the setting, and ends the rotation of bucket keys. All of it continues after a crash. Without encryption there is nothing to do.
 */

import { recordRewrap } from "../../../shared/records/encryption/encryption-acts.ts";
import { readEncryptionStatus } from "../../../shared/records/encryption/encryption-status.ts";
import { stepConversion } from "../../../shared/records/encryption/jobs/conversion.ts";
import {
  beginRotation,
  rewrapBuckets,
  rewrapDataKeysOfAll,
} from "../../../shared/records/encryption/jobs/rotation.ts";
import type { LeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { type Lease, requireLease } from "../../../shared/records/leader/lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { EncryptionKeys } from "../../../shared/service-host/store/encryption.ts";
import type { Store, Tx } from "../../../shared/store/store.ts";

/** The time until a new root key, and a new bucket key, are noticed. */
const EVERY_MS = 5_000;
/** Between two steps of the conversion: other work has the store most of the time. */
const REST_MS = 50;

export interface EncryptorContext extends ServiceContext {
  readonly store: Store;
  readonly encryption?: EncryptionKeys | null;
  readonly leases: LeaderLeases;
}

/** Stop finishes the step in progress and releases the lease. */
export function startEncryptor(context: EncryptorContext): Stop {
  const { encryption = null, clock, log, leases } = context;
  if (encryption === null) return async () => {};
  const leader = leases.of("encryption");
  const stop = startTicker({
    name: "encryption",
    everyMs: EVERY_MS,
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      const hold = () => leader.hold();
      if ((await hold()) === null) return;
      // Plain rows must not wait for a root key that cannot be used, nor for a damaged key.
      await rotate(context, encryption, hold).catch((error: unknown) =>
        log.warn({ error }, "the rotation of keys has stopped, and is tried again"),
      );
      await convert(context, encryption, { hold, signal });
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

type Hold = () => Promise<Lease | null>;

/** Checks the lease in each of its transactions. */
const guardOf = (lease: Lease) => (tx: Tx) => requireLease(tx, lease);

async function rotate(context: EncryptorContext, keys: EncryptionKeys, hold: Hold): Promise<void> {
  const { store, clock, log, metrics } = context;
  const before = await readEncryptionStatus(store, keys);
  const lease = await hold();
  if (lease === null) return;
  const rotating = { ...keys, guard: guardOf(lease) };
  metrics.encryptionOtherRoots.set(before.bucket_keys_of_other_roots);
  if (before.bucket_keys_of_other_roots > 0) {
    const { root_key: rootKey, bucket_keys_of_other_roots: keys } = before;
    const done = await rewrapBuckets(rotating, () =>
      recordRewrap(store, { service: "watchdog", rootKey, keys, nowMs: clock.now() }),
    );
    metrics.encryptionKeysRewrappedTotal.inc(done.rewrapped);
    if (done.rewrapped > 0)
      log.info({ ...done, root_key: rootKey }, "bucket keys were wrapped by the first root key");
  }
  const isBegun = await beginRotation(store, rotating);
  if (isBegun || before.tenants_in_rotation > 0) {
    const done = await rewrapDataKeysOfAll(rotating);
    metrics.encryptionKeysRewrappedTotal.inc(done.rewrapped);
    log.info(done, "data keys were wrapped by the newest bucket keys");
  }
  metrics.encryptionOtherRoots.set((await readEncryptionStatus(store, keys)).bucket_keys_of_other_roots);
}

async function convert(
  { store, clock, log, metrics }: EncryptorContext,
  { engine }: EncryptionKeys,
  { hold, signal }: { readonly hold: Hold; readonly signal: AbortSignal },
): Promise<void> {
  const throttle = createBackgroundThrottle(clock);
  for (let converted = 0; !signal.aborted; ) {
    const lease = await hold();
    if (lease === null) return;
    const guard = guardOf(lease);
    const step = () => stepConversion({ engine, store, guard, nowMs: clock.now() });
    const done = await throttle.step(step, signal);
    converted += done.converted;
    metrics.encryptedRowsTotal.inc(done.converted);
    metrics.encryptionComplete.set(done.state === "complete" ? 1 : 0);
    if (done.state !== "more") {
      if (converted > 0) log.info({ rows: converted, state: done.state }, "plain rows were encrypted");
      return;
    }
    await clock.sleep(REST_MS, signal);
  }
}
