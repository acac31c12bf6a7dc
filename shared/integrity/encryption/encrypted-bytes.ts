/**
 * Encrypted bytes: AES-256-GCM with the address of the bytes as associated data, so that bytes which were moved to
 * another address do not decrypt. The form is `marker (2) ‖ key id (8) ‖ nonce (12) ‖ ciphertext ‖ tag (16)`.
 */
import { createCipheriv, createDecipheriv, type KeyObject, randomFillSync } from "node:crypto";

/** The first byte occurs neither in UTF-8 nor at the start of MessagePack, so plain values never begin with it. */
const MARKER = Buffer.from([0xc1, 0x01]);
export const DATA_KEY_ID_BYTES = 8;
export const DATA_KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const ASSOCIATED_FROM = MARKER.length + DATA_KEY_ID_BYTES;
/** Where the nonce begins, which is random. */
export const NONCE_AT = MARKER.length + DATA_KEY_ID_BYTES;
const HEADER_BYTES = NONCE_AT + NONCE_BYTES;
/** By how much encrypted bytes are longer than the plain ones. */
export const ENCRYPTED_BYTES_MORE = HEADER_BYTES + TAG_BYTES;
const CIPHER = "aes-256-gcm";
const NONCES_AT_ONCE = 256;

/** A key that encrypts bytes. At most 2³² messages may be encrypted with one (NIST SP 800-38D, random nonces). */
export interface DataKey {
  /** {@link DATA_KEY_ID_BYTES} long. */
  readonly id: Uint8Array;
  readonly secret: KeyObject;
}

const nonces = Buffer.allocUnsafe(NONCES_AT_ONCE * NONCE_BYTES);
let used = nonces.length;

/** Random, read from the system for many at once: one call each would cost more than the encryption. */
function nextNonce(): Buffer {
  if (used === nonces.length) {
    randomFillSync(nonces);
    used = 0;
  }
  used += NONCE_BYTES;
  return nonces.subarray(used - NONCE_BYTES, used);
}

export function encryptBytes(key: DataKey, plain: Uint8Array, address: Uint8Array): Buffer {
  const nonce = nextNonce();
  const cipher = createCipheriv(CIPHER, key.secret, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(associated(key.id, address));
  const body = cipher.update(plain);
  // GCM is a stream cipher: `final` gives no bytes, and completes the tag.
  cipher.final();
  const encrypted = Buffer.allocUnsafe(plain.length + ENCRYPTED_BYTES_MORE);
  encrypted.set(MARKER);
  encrypted.set(key.id, MARKER.length);
  encrypted.set(nonce, NONCE_AT);
  encrypted.set(body, HEADER_BYTES);
  encrypted.set(cipher.getAuthTag(), encrypted.length - TAG_BYTES);
  return encrypted;
}

/** The id of the key that encrypted the bytes; null: they are plain. */
export function encryptedWith(bytes: Uint8Array): Uint8Array | null {
  if (bytes.length < ENCRYPTED_BYTES_MORE || bytes[0] !== MARKER[0] || bytes[1] !== MARKER[1]) return null;
  return bytes.subarray(MARKER.length, MARKER.length + DATA_KEY_ID_BYTES);
}

/** null: they were changed, moved from another address, or encrypted with another key. */
export function decryptBytes(key: DataKey, encrypted: Uint8Array, address: Uint8Array): Buffer | null {
  const id = encryptedWith(encrypted);
  if (id === null || Buffer.compare(id, key.id) !== 0) return null;
  const nonce = encrypted.subarray(NONCE_AT, HEADER_BYTES);
  // Without the fixed length, Node accepts a tag that was cut to 4 bytes.
  const decipher = createDecipheriv(CIPHER, key.secret, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(associated(key.id, address));
  decipher.setAuthTag(encrypted.subarray(encrypted.length - TAG_BYTES));
  const plain = decipher.update(encrypted.subarray(HEADER_BYTES, encrypted.length - TAG_BYTES));
  try {
    decipher.final();
    return plain;
  } catch {
    return null;
  }
}

/** Used again by each call: a cipher copies its associated data. */
let scratch = Buffer.alloc(1_024);

/** The key's id has a fixed length, so no two pairs of id and address give the same bytes. */
function associated(id: Uint8Array, address: Uint8Array): Buffer {
  const length = ASSOCIATED_FROM + address.length;
  if (scratch.length < length) scratch = Buffer.alloc(length);
  scratch.set(MARKER);
  scratch.set(id, MARKER.length);
  scratch.set(address, ASSOCIATED_FROM);
  return scratch.subarray(0, length);
}
