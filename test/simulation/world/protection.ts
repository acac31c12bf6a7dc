/** The signatures and the encryption of a story's store, and the seal of its spools. The keys follow from its seed: new ones would be made from the machine's own entropy. */
import { createHash } from "node:crypto";
import { type SigningKey, signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import type { KeyEncryptionKey } from "../../../shared/integrity/encryption/key-encryption-key.ts";
import { secretKeyOf } from "../../../shared/integrity/encryption/secret-key.ts";
import { openEncryption } from "../../../shared/records/encryption/open-encryption.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import type { EncryptionKeys } from "../../../shared/service-host/store/encryption.ts";
import type { Store } from "../../../shared/store/store.ts";
import { register, storeSignedBy } from "../../harness/records/signed.ts";
import type { SimulatedDatabase } from "../store/database.ts";
import type { Story } from "../story/story.ts";

/** Each process reads its keys for itself. */
export interface Protection {
  /** null: the services sign nothing. */
  readonly signingKey: (() => SigningKey) | null;
  /** null: they encrypt nothing. */
  readonly rootKey: (() => KeyEncryptionKey) | null;
  /** null: agents spool commands in plain text. */
  readonly spoolKey: (() => KeyEncryptionKey) | null;
}

export interface ProtectedStore {
  readonly store: Store;
  readonly encryption: EncryptionKeys | null;
}

export const UNPROTECTED: Protection = { signingKey: null, rootKey: null, spoolKey: null };

export const protectionOf = ({ seed, signs, encrypts }: Story): Protection => ({
  signingKey: signs ? () => signingKeyOf(seed) : null,
  rootKey: encrypts ? () => encryptionKeyOf("root key", seed) : null,
  spoolKey: encrypts ? () => encryptionKeyOf("spool key", seed) : null,
});

const secretOf = (use: string, seed: number): Buffer =>
  createHash("sha256").update(`${use} of seed ${seed}`).digest();

const encryptionKeyOf = (use: string, seed: number): KeyEncryptionKey =>
  secretKeyOf(secretOf(use, seed).toString("base64"))!;

/** An Ed25519 private key in PKCS #8 is this, then its 32 bytes (RFC 8410). */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

function signingKeyOf(seed: number): SigningKey {
  const text = Buffer.concat([PKCS8, secretOf("signing key", seed)]).toString("base64");
  return signingKeyFrom(`-----BEGIN PRIVATE KEY-----\n${text}\n-----END PRIVATE KEY-----\n`);
}

/** The store as a service works on it. */
export async function protectedStore(
  engine: Store,
  { signingKey, rootKey }: Protection,
): Promise<ProtectedStore> {
  const opened = rootKey === null ? null : await openEncryption(engine, [rootKey()]);
  const store = opened === null ? engine : opened.store;
  return {
    store: signingKey === null ? store : storeSignedBy(store, signingKey()),
    encryption: opened === null ? null : { engine, ring: opened.ring },
  };
}

/** The services find a store that knows their key. */
export async function prepareStore(database: SimulatedDatabase, protection: Protection): Promise<void> {
  if (protection.signingKey === null) return;
  const { store } = await protectedStore(await database.open(), protection);
  await openFormat(store);
  await register(store, protection.signingKey());
  await store.close({ drainMs: 0 });
}
