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
const OPTIONS = { authTagLength: TAG_BYTES } as const;

/** A key that encrypts bytes. At most 2³² messages may be encrypted with one (NIST SP 800-38D, random nonces). */
export interface DataKey {
  /** {@link DATA_KEY_ID_BYTES} long. */
  readonly id: Uint8Array;
  readonly secret: KeyObject;
}

const nonces = Buffer.allocUnsafe(NONCES_AT_ONCE * NONCE_BYTES);
let used = nonces.length;

// Used again by each call, because a view of its own for each part takes as long as a part of the cipher: a cipher copies its nonce, its associated data
// and its tag.
const nonce = Buffer.alloc(NONCE_BYTES);
const tag = Buffer.alloc(TAG_BYTES);

/** Random, read from the system for many at once: one call each would cost more than the encryption. */
function takeNonce(): void {
  if (used === nonces.length) {
    randomFillSync(nonces);
    used = 0;
  }
  for (let i = 0; i < NONCE_BYTES; i += 1) nonce[i] = nonces[used + i]!;
  used += NONCE_BYTES;
}

export function encryptBytes(key: DataKey, plain: Uint8Array, address: Uint8Array): Buffer {
  takeNonce();
  const cipher = createCipheriv(CIPHER, key.secret, nonce, OPTIONS);
  cipher.setAAD(associated(key.id, address));
  const body = cipher.update(plain);
  // GCM is a stream cipher: `final` gives no bytes, and completes the tag.
  cipher.final();
  const encrypted = Buffer.allocUnsafe(plain.length + ENCRYPTED_BYTES_MORE);
  encrypted[0] = MARKER[0]!;
  encrypted[1] = MARKER[1]!;
  for (let i = 0; i < DATA_KEY_ID_BYTES; i += 1) encrypted[MARKER.length + i] = key.id[i]!;
  for (let i = 0; i < NONCE_BYTES; i += 1) encrypted[NONCE_AT + i] = nonce[i]!;
  encrypted.set(body, HEADER_BYTES);
  encrypted.set(cipher.getAuthTag(), encrypted.length - TAG_BYTES);
  return encrypted;
}

/** The id of the key that encrypted the bytes; null: they are plain. */
export function encryptedWith(bytes: Uint8Array): Uint8Array | null {
  if (bytes.length < ENCRYPTED_BYTES_MORE || bytes[0] !== MARKER[0] || bytes[1] !== MARKER[1]) return null;
  return bytes.subarray(MARKER.length, MARKER.length + DATA_KEY_ID_BYTES);
}

/** Whether this key encrypted the bytes from here on, by the id in them. */
export function isEncryptedWith({ id }: DataKey, bytes: Uint8Array, from = 0): boolean {
  if (bytes.length - from < ENCRYPTED_BYTES_MORE) return false;
  if (bytes[from] !== MARKER[0] || bytes[from + 1] !== MARKER[1]) return false;
  const at = from + MARKER.length;
  for (let i = 0; i < DATA_KEY_ID_BYTES; i += 1) if (bytes[at + i] !== id[i]) return false;
  return true;
}

/** null: they were changed, moved from another address, or encrypted with another key. */
export function decryptBytes(key: DataKey, encrypted: Uint8Array, address: Uint8Array): Buffer | null {
  if (!isEncryptedWith(key, encrypted)) return null;
  const end = encrypted.length - TAG_BYTES;
  for (let i = 0; i < NONCE_BYTES; i += 1) nonce[i] = encrypted[NONCE_AT + i]!;
  for (let i = 0; i < TAG_BYTES; i += 1) tag[i] = encrypted[end + i]!;
  // Without the fixed length, Node accepts a tag that was cut to 4 bytes.
  const decipher = createDecipheriv(CIPHER, key.secret, nonce, OPTIONS);
  decipher.setAAD(associated(key.id, address));
  decipher.setAuthTag(tag);
  const plain = decipher.update(encrypted.subarray(HEADER_BYTES, end));
  try {
    decipher.final();
    return plain;
  } catch {
    return null;
  }
}

/** Kept for shorter addresses: nearly all keys of rows are. */
const ASSOCIATED_KEPT = 256;
/** A block for each length, made when it is first needed. */
const kept: (Buffer | undefined)[] = new Array(ASSOCIATED_KEPT).fill(undefined);

function blockOf(length: number): Buffer {
  if (length >= ASSOCIATED_KEPT) return Buffer.allocUnsafe(length);
  kept[length] ??= Buffer.allocUnsafeSlow(length);
  return kept[length];
}

/** The key's id has a fixed length, so no two pairs of id and address give the same bytes. */
function associated(id: Uint8Array, address: Uint8Array): Buffer {
  const block = blockOf(ASSOCIATED_FROM + address.length);
  block[0] = MARKER[0]!;
  block[1] = MARKER[1]!;
  for (let i = 0; i < DATA_KEY_ID_BYTES; i += 1) block[MARKER.length + i] = id[i]!;
  block.set(address, ASSOCIATED_FROM);
  return block;
}
