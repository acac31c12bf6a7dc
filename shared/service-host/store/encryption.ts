/** The encryption of the store that a service opens: with the root keys of its setting, or refused. */
import { openRootKeys } from "../../integrity/encryption/root-keys.ts";
import type { EncryptionDiagnosis } from "../../protocol/diagnosis.ts";
import { FleetError } from "../../protocol/errors.ts";
import { readEncryptionStatus } from "../../records/encryption/encryption-status.ts";
import type { KeyRing } from "../../records/encryption/keys/key-ring.ts";
import { openEncryption, requirePlainStore } from "../../records/encryption/open-encryption.ts";
import { refusedStart } from "../../runtime/process/startup.ts";
import type { Store } from "../../store/store.ts";
import { ENCRYPTION_KEY } from "../service-settings.ts";
import { STATED_REFUSALS, storeProblem } from "./store-problem.ts";

export interface StoreEncryption {
  /** The store as the service works on it. */
  readonly store: Store;
  /** null: the rows are not encrypted. */
  readonly keys: EncryptionKeys | null;
}

/** What jobs need that convert rows and rotate keys. */
export interface EncryptionKeys {
  /** The store without encryption. */
  readonly engine: Store;
  readonly ring: KeyRing;
}

/**
 * `sources` undefined: the service has no root keys. Throws CONFLICT if the store is encrypted then, StartupError for a key that cannot be read,
 * StoreError while the keys cannot be used, CORRUPT if records of the encryption are missing.
 */
export async function openStoreEncryption(
  engine: Store,
  sources: readonly string[] | undefined,
): Promise<StoreEncryption> {
  if (sources === undefined) {
    await requirePlainStore(engine);
    return { store: engine, keys: null };
  }
  const roots = await openRootKeys(sources, { setting: ENCRYPTION_KEY, env: process.env });
  const { store, ring } = await openEncryption(engine, roots);
  return { store, keys: { engine, ring } };
}

/** As {@link openStoreEncryption}, with problems that end a start: StartupError. */
export async function openEncryptionOf(
  engine: Store,
  storeUrl: string,
  sources: readonly string[] | undefined,
): Promise<StoreEncryption> {
  try {
    return await openStoreEncryption(engine, sources);
  } catch (error) {
    if (error instanceof FleetError && STATED_REFUSALS.has(error.code))
      throw refusedStart(error, { store: storeUrl });
    throw storeProblem(error, storeUrl, `check ${ENCRYPTION_KEY}, and whether its key service answers`);
  }
}

/** What `diagnose` answers about the encryption. */
export async function encryptionState({ store, keys }: StoreEncryption): Promise<EncryptionDiagnosis> {
  if (keys === null) return { state: "off" };
  return readEncryptionStatus(store, keys);
}
