/** Encrypted stores in tests. */

import { randomBytes } from "node:crypto";
import type { KeyEncryptionKey } from "../../../shared/integrity/encryption/key-encryption-key.ts";
import { secretKeyOf } from "../../../shared/integrity/encryption/secret-key.ts";

/** A new root key. */
export function rootKey(): KeyEncryptionKey {
  const key = secretKeyOf(randomBytes(32).toString("base64"));
  if (key === null) throw new Error("32 bytes in base64 are a key");
  return key;
}
