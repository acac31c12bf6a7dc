/** A root key whose 32 bytes this process holds, from a file or the environment. */
import { createHash, createSecretKey } from "node:crypto";
import {
  DATA_KEY_BYTES,
  DATA_KEY_ID_BYTES,
  type DataKey,
  decryptBytes,
  encryptBytes,
} from "./encrypted-bytes.ts";
import { KeyEncryptionError, type KeyEncryptionKey } from "./key-encryption-key.ts";

/** So that the published id is no hash of the secret alone, which other programs might publish too. */
const ID_DOMAIN = "fleet/key-encryption-key/v1\0";
const BASE64 = /^[A-Za-z0-9+/]{43}=$/;

/** `text`: 32 random bytes in base64. null: it has another form. */
export function dataKeyOf(text: string): DataKey | null {
  if (!BASE64.test(text)) return null;
  const bytes = Buffer.from(text, "base64");
  // Spare bits of the last character may be set: such a text is not what was written.
  if (bytes.length !== DATA_KEY_BYTES || bytes.toString("base64") !== text) return null;
  const digest = createHash("sha256").update(ID_DOMAIN).update(bytes).digest();
  return { id: digest.subarray(0, DATA_KEY_ID_BYTES), secret: createSecretKey(bytes) };
}

/** The same key as one that wraps others. */
export function secretKeyOf(text: string): KeyEncryptionKey | null {
  const key = dataKeyOf(text);
  if (key === null) return null;
  return {
    id: `local:${Buffer.from(key.id).toString("hex")}`,
    wrap: async (plain, context) => encryptBytes(key, plain, Buffer.from(context)),
    unwrap: async (wrapped, context) => {
      const plain = decryptBytes(key, wrapped, Buffer.from(context));
      if (plain === null) throw new KeyEncryptionError("invalid", "the wrapped key does not unwrap");
      return plain;
    },
  };
}
