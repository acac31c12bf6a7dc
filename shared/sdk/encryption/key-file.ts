/** Files of keys of encryption at rest. */
import { randomBytes } from "node:crypto";
import { DATA_KEY_BYTES } from "../../integrity/encryption/encrypted-bytes.ts";
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
