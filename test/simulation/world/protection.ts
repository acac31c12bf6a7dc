/** The signatures and the encryption of a story's store, and the seal of its spools. The keys follow from its seed. */
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type {
  KeyEncryptionKey,
  KeyEncryptionKeys,
} from "../../../shared/integrity/encryption/key-encryption-key.ts";
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
  /** The newest first. null: they encrypt nothing. */
  readonly rootKeys: (() => KeyEncryptionKeys) | null;
  /** From now on a process that starts has a new first root key beside the earlier ones. */
  readonly replaceRootKey: () => void;
  /** null: agents spool commands in plain text. */
  readonly spoolKey: (() => KeyEncryptionKey) | null;
}

export interface OpenedStore {
  readonly store: Store;
  readonly encryption: EncryptionKeys | null;
}

export const UNPROTECTED: Protection = {
  ...{ signingKeyFile: null, rootKeys: null, spoolKey: null },
  replaceRootKey: () => {},
};

const SIGNING_KEY_FILE = join(SIMULATED_FOLDER, "keys", "signing-key.pem");

export function protectionOf({ seed, signs, encrypts }: Story): Protection {
  const roots: [string, ...string[]] = ["root key 1"];
  return {
    signingKeyFile: signs ? SIGNING_KEY_FILE : null,
    rootKeys: encrypts ? () => keysOf(roots, seed) : null,
    spoolKey: encrypts ? () => encryptionKeyOf("spool key", seed) : null,
    replaceRootKey: () => void roots.unshift(`root key ${roots.length + 1}`),
  };
}

function keysOf([first, ...earlier]: readonly [string, ...string[]], seed: number): KeyEncryptionKeys {
  return [encryptionKeyOf(first, seed), ...earlier.map((use) => encryptionKeyOf(use, seed))];
}

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
  { rootKeys }: Pick<Protection, "rootKeys">,
): Promise<OpenedStore> {
  if (rootKeys === null) return { store: engine, encryption: null };
  const { store, ring } = await openEncryption(engine, rootKeys());
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
