/**
 * The background work of encryption at rest, in one watchdog at a time: encrypts the plain rows of a store from before its encryption, wraps bucket keys by
 * the first root key of the setting, and carries out rotations of bucket keys. All of it continues after a crash. Without encryption there is nothing to do.
 */

import { stateConversion } from "../../../shared/records/encryption/conversion-statement.ts";
import { stepConversion } from "../../../shared/records/encryption/jobs/conversion.ts";
import type { Lease } from "../../../shared/records/leader/lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { EncryptionKeys } from "../../../shared/service-host/store/encryption.ts";
import { type EncryptorContext, guardOf, type Hold } from "./encryptor-context.ts";
import { createKeyRotation, type KeyRotation } from "./key-rotation.ts";

/** The time until a new root key, and a request for new bucket keys, are noticed. */
const EVERY_MS = 5_000;
/** Between two steps: other work has the store most of the time. */
const REST_MS = 50;

/** Stop finishes the step in progress and releases the lease. */
export function startEncryptor(context: EncryptorContext): Stop {
  const { encryption = null, clock, log, leases } = context;
  if (encryption === null) return async () => {};
  const leader = leases.of("encryption");
  const rotation = createKeyRotation(context, encryption);
  const stop = startTicker({
    name: "encryption",
    everyMs: EVERY_MS,
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      const hold = () => leader.hold();
      if ((await hold()) === null) return;
      await rotation.rewrapRoots(hold, signal).catch(stopped(context, "rotation of root keys"));
      await work(context, encryption, rotation, { hold, signal });
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

const stopped =
  ({ log }: EncryptorContext, job: string) =>
  (error: unknown): null => {
    log.warn({ error, job }, "background work of encryption has stopped, and is tried again");
    return null;
  };

/** Steps of the rotation and of the conversion in turn, so that neither waits for the end, or for a failure, of the other. */
async function work(
  context: EncryptorContext,
  keys: EncryptionKeys,
  rotation: KeyRotation,
  { hold, signal }: { readonly hold: Hold; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, log } = context;
  const throttle = createBackgroundThrottle(clock);
  let converted = 0;
  for (let [rotates, converts] = [true, true]; rotates || converts; ) {
    const lease = await hold();
    if (lease === null || signal.aborted) return;
    if (rotates) {
      const step = throttle.step(() => rotation.step(lease), signal);
      rotates = (await step.catch(stopped(context, "rotation of keys"))) === "more";
    }
    if (converts) {
      const step = throttle.step(() => convert(context, keys, lease), signal);
      const done = await step.catch(stopped(context, "encryption of plain rows"));
      if (done?.state === "complete") await state(context, lease);
      converted += done?.converted ?? 0;
      converts = done?.state === "more";
      if (!converts && converted > 0)
        log.info({ rows: converted, state: done?.state }, "plain rows were encrypted");
    }
    if (rotates || converts) await clock.sleep(REST_MS, signal);
  }
}

/** Apart from the conversion: the rows are encrypted, even while a damaged audit chain takes no statement. */
async function state(context: EncryptorContext, lease: Lease): Promise<void> {
  const { store, clock } = context;
  const stating = { store, guard: guardOf(lease), service: "watchdog", nowMs: clock.now() };
  await stateConversion(stating).catch(stopped(context, "statement that all rows are encrypted"));
}

async function convert(
  { store, clock, metrics }: EncryptorContext,
  { engine }: EncryptionKeys,
  lease: Lease,
) {
  const guard = guardOf(lease);
  const done = await stepConversion({ engine, store, guard, nowMs: clock.now() });
  metrics.encryptedRowsTotal.inc(done.converted);
  metrics.encryptionComplete.set(done.state === "complete" ? 1 : 0);
  return done;
}
