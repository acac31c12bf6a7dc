/**
 * Values as they are in an encrypted store. One that carries the stamp of its commit is encrypted before the stamp is known, so the stamp stands behind
 * the encrypted bytes: `marker (2) ‖ encrypted(length of the part before ‖ part before ‖ part after) ‖ stamp (10)`.
 */
import {
  DATA_KEY_ID_BYTES,
  type DataKey,
  decryptBytes,
  ENCRYPTED_BYTES_MORE,
  encryptBytes,
  encryptedWith,
  isEncryptedWith,
} from "../../integrity/encryption/encrypted-bytes.ts";
import { type Bytes, STAMP_BYTES } from "../../store/store.ts";

/** As that of encrypted bytes, it begins no plain value. */
const STAMPED = Buffer.from([0xc1, 0x02]);
const LENGTH_BYTES = 4;
/** So that the two forms cannot stand for each other. */
const STAMPED_ADDRESS_END = Buffer.from([0xff, 0x02]);

export const SEALED_BYTES_MORE = ENCRYPTED_BYTES_MORE;
export const SEALED_STAMPED_BYTES_MORE = STAMPED.length + ENCRYPTED_BYTES_MORE + LENGTH_BYTES;

/** What stands for a value that may not be read. No record has this form, so its reader finds it damaged. */
export const UNREADABLE: Bytes = Buffer.alloc(16, 0xc1);

export function isUnreadable(value: Bytes): boolean {
  return Buffer.compare(value, UNREADABLE) === 0;
}

export function sealValue(key: DataKey, value: Bytes, address: Bytes): Buffer {
  return encryptBytes(key, value, address);
}

/** The part before the stamp. Nothing follows the stamp. */
export function sealStamped(key: DataKey, prefix: Bytes, suffix: Bytes, address: Bytes): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(prefix.length);
  const sealed = encryptBytes(key, Buffer.concat([length, prefix, suffix]), stampedAddress(address));
  return Buffer.concat([STAMPED, sealed]);
}

/** The id of the key of a sealed value; null: the value is plain. */
export function sealedWith(value: Bytes): Bytes | null {
  return encryptedWith(isStamped(value) ? value.subarray(STAMPED.length, -STAMP_BYTES) : value);
}

/** Whether the value is sealed with this key, by the id in it. */
export function isSealedWith(key: DataKey, value: Bytes): boolean {
  if (!isStamped(value)) return isEncryptedWith(key, value);
  return (
    value.length - STAMP_BYTES >= SEALED_STAMPED_BYTES_MORE && isEncryptedWith(key, value, STAMPED.length)
  );
}

/** null: the value was changed, or stood at another address. */
export function openValue(key: DataKey, value: Bytes, address: Bytes): Bytes | null {
  if (!isStamped(value)) return decryptBytes(key, value, address);
  const end = value.length - STAMP_BYTES;
  const parts = decryptBytes(key, value.subarray(STAMPED.length, end), stampedAddress(address));
  if (parts === null) return null;
  const from = LENGTH_BYTES + parts.readUInt32BE();
  return Buffer.concat([parts.subarray(LENGTH_BYTES, from), value.subarray(end), parts.subarray(from)]);
}

/** Ids as text, to look keys up. */
export function keyIdText(id: Bytes): string {
  return Buffer.from(id.buffer, id.byteOffset, DATA_KEY_ID_BYTES).toString("latin1");
}

function isStamped(value: Bytes): boolean {
  return value.length > STAMPED.length + STAMP_BYTES && value[0] === STAMPED[0] && value[1] === STAMPED[1];
}

function stampedAddress(address: Bytes): Buffer {
  return Buffer.concat([address, STAMPED_ADDRESS_END]);
}
