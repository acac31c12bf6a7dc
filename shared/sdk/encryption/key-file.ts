/** Files of keys of encryption. */
import { randomBytes } from "node:crypto";
import { DATA_KEY_BYTES } from "../../integrity/encryption/encrypted-bytes.ts";
import { exportKeyPairOf, newPrivateKeyText } from "../../integrity/encryption/files/x25519-key.ts";
import { secretKeyOf } from "../../integrity/encryption/secret-key.ts";
import { writeOnce } from "../../runtime/process/whole-file.ts";

/**
 * Makes a file with a new key, which only this user can read. Returns the key's id, which is not secret; null: the file exists and is unchanged.
 * Throws the error of the file system.
 */
export function newEncryptionKeyFile(path: string): string | null {
  const text = randomBytes(DATA_KEY_BYTES).toString("base64");
  return writeOnce(path, `${text}\n`) ? secretKeyOf(text)!.id : null;
}

export interface ExportKey {
  readonly id: string;
  /** With it other programs encrypt for the holder of the file. */
  readonly publicKey: string;
}

/** The same for a key pair: the file has the private key. */
export function newExportKeyFile(path: string): ExportKey | null {
  const text = newPrivateKeyText();
  if (!writeOnce(path, `${text}\n`)) return null;
  const { id, publicText } = exportKeyPairOf(text)!;
  return { id, publicKey: publicText };
}
