/** The signatures and the encryption of a story's store, and the seal of its spools. The keys follow from its seed. */
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { KeyEncryptionKey } from "../../../shared/integrity/encryption/key-encryption-key.ts";
import { secretKeyOf } from "../../../shared/integrity/encryption/secret-key.ts";
import { openEncryption } from "../../../shared/records/encryption/open-encryption.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import type { Metrics } from "../../../shared/runtime/observability/metrics.ts";
import { syncFolders, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { openSigning, type Signing } from "../../../shared/service-host/signing/signing.ts";
import type { EncryptionKeys } from "../../../shared/service-host/store/encryption.ts";
import type { Store } from "../../../shared/store/store.ts";
import { SIMULATED_FOLDER } from "../machine/file-system.ts";
import { SILENT_LOG } from "../silent-log.ts";
import type { Story } from "../story/story.ts";
import { ed25519KeyOf } from "../time/ed25519.ts";

/** Each process reads its keys for itself. */
export interface Protection {
  /** The file of the key with which services sign, on their machine. null: they sign nothing. */
  readonly signingKeyFile: string | null;
  /** null: they encrypt nothing. */
  readonly rootKey: (() => KeyEncryptionKey) | null;
  /** null: agents spool commands in plain text. */
  readonly spoolKey: (() => KeyEncryptionKey) | null;
}

export interface OpenedStore {
  readonly store: Store;
  readonly encryption: EncryptionKeys | null;
}

export const UNPROTECTED: Protection = { signingKeyFile: null, rootKey: null, spoolKey: null };

const SIGNING_KEY_FILE = join(SIMULATED_FOLDER, "keys", "signing-key.pem");

export const protectionOf = ({ seed, signs, encrypts }: Story): Protection => ({
  signingKeyFile: signs ? SIGNING_KEY_FILE : null,
  rootKey: encrypts ? () => encryptionKeyOf("root key", seed) : null,
  spoolKey: encrypts ? () => encryptionKeyOf("spool key", seed) : null,
});

const secretOf = (use: string, seed: number): Buffer =>
  createHash("sha256").update(`${use} of seed ${seed}`).digest();

const encryptionKeyOf = (use: string, seed: number): KeyEncryptionKey =>
  secretKeyOf(secretOf(use, seed).toString("base64"))!;

/** Gives the services their first key. To be called on their machine. */
export function placeSigningKey({ signingKeyFile: path }: Protection, { seed }: Story): void {
  if (path === null) return;
  const key = ed25519KeyOf(secretOf("signing key", seed));
  mkdirSync(dirname(path));
  syncFolders(dirname(path));
  writeWhole(path, key.export({ type: "pkcs8", format: "pem" }).toString());
}

/** The store with its rows in plain text. */
export async function readableStore(
  engine: Store,
  { rootKey }: Pick<Protection, "rootKey">,
): Promise<OpenedStore> {
  if (rootKey === null) return { store: engine, encryption: null };
  const { store, ring } = await openEncryption(engine, [rootKey()]);
  return { store, encryption: { engine, ring } };
}

/** The store as a service writes to it. To be called on the machine of the services. */
export function signingStore(
  store: Store,
  { signingKeyFile }: Pick<Protection, "signingKeyFile">,
  { metrics, service }: { readonly metrics: Metrics; readonly service: string },
): Promise<Signing> {
  const context = { clock: systemClock, log: SILENT_LOG, metrics };
  return openSigning(context, store, { service, signingKeyFile: signingKeyFile ?? "off" });
}
