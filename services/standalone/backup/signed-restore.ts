/** The first work on a restored store, signed if the store has signing keys: a restore is part of the history that signatures prove. */
import { principalActor } from "../../../shared/records/audit/audit.ts";
import { systemKeys } from "../../../shared/records/kv/keyspace.ts";
import { type RestoredStore, supersedeAll } from "../../../shared/records/restored/restored-store.ts";
import {
  areSignaturesRequired,
  isKeyInUse,
  listSigningKeys,
} from "../../../shared/records/signing/key-record.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { openSigning, type SigningOptions } from "../../../shared/service-host/signing/signing.ts";
import type { Store } from "../../../shared/store/store.ts";

/** The keys of the fleet into whose home the store is restored; a backup has none. */
export interface RestoreKeys extends Pick<SigningOptions, "home" | "signingKeyFile"> {
  /** undefined: the store must not be encrypted. */
  readonly encryptionKeys?: readonly string[] | undefined;
}

export interface RestoredBackup {
  /** The time of the backup, ISO 8601. */
  readonly backupAt: string;
  /** It has the rows of the store, and no other bytes of its file. Absent: not known. */
  readonly isOfRows?: boolean;
  /** The principal that restores it. */
  readonly person: string;
}

export interface SignedRestore extends RestoredStore {
  /** The ids of the signing keys in use. One of them may have been revoked after the backup: the store has lost that. */
  readonly signing_keys: readonly string[];
}

export async function supersedeSigned(
  store: Store,
  { person, ...backup }: RestoredBackup,
  keys: RestoreKeys,
): Promise<SignedRestore> {
  const { known, mustSign } = await store.read(
    { label: "signing_keys", deadlineMs: 5_000 },
    async (reader) => {
      const { rows } = await reader.getRange(systemKeys.signingKeys(), { limit: 1 });
      const known = await listSigningKeys(reader);
      // A store whose records of keys are damaged or lost has them nevertheless.
      return { known, mustSign: rows.length > 0 || (await areSignaturesRequired(reader)) };
    },
  );
  const facts = { ...backup, nowMs: Date.now(), actor: principalActor(person) };
  const signing_keys = known.filter(isKeyInUse).map(({ key_id }) => key_id);
  if (!mustSign) return { ...(await supersedeAll(store, facts)), signing_keys };
  const log = createLogger({ service: "restore", level: "silent" });
  const context = { log, clock: systemClock, metrics: createMetrics({ ofProcess: false }) };
  const signing = await openSigning(context, store, { service: "restore", ...keys });
  try {
    return { ...(await supersedeAll(signing.store, facts)), signing_keys };
  } finally {
    await signing.stop();
  }
}
