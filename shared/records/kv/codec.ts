/**
 * The encoding of values on disk: one format byte, then MessagePack, compressed with zstd when that makes it
 * smaller. Drivers see bytes and callers see records. Only this module converts between them.
 */
import zlib, { crc32 } from "node:zlib";
import { Packr, RESERVE_START_SPACE } from "msgpackr";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Bytes } from "../../store/store.ts";

const PLAIN = 0x01;
const ZSTD = 0x02;
/** MessagePack after its CRC-32. The CRC detects damage; forgery is detected by the audit chain. */
const CHECKED = 0x03;
/** The first byte of a value that could not be decrypted. No format has it. */
const ENCRYPTED = 0xc1;
const CHECK_BYTES = 4;
const ZSTD_NODE = "22.15.0";

// Plain maps instead of the library's record extension: any MessagePack reader can read the store.
const packr = new Packr({ useRecords: false, variableMapSize: true });

export class UnreadableValue extends Error {
  constructor(reason: string, cause?: unknown) {
    super(reason, cause === undefined ? undefined : { cause });
    this.name = "UnreadableValue";
  }
}

/** Node has zstd from 22.15. An older one writes every value uncompressed. */
const { zstdCompressSync, zstdDecompressSync } = zlib as Partial<typeof zlib>;

/** The compressed bytes, or null when compression does not make them smaller. */
export function compressed(bytes: Bytes): Bytes | null {
  if (zstdCompressSync === undefined || bytes.length < LIMITS.compress_bytes_min) return null;
  const smaller = zstdCompressSync(bytes);
  return smaller.length < bytes.length ? smaller : null;
}

/**
 * `maxBytes` bounds the memory that a damaged or hostile value can use. Throws UNSUPPORTED_VERSION where Node has no zstd: the value
 * is sound, so it must not count as damaged.
 */
export function decompressed(bytes: Bytes, maxBytes: number): Bytes {
  if (zstdDecompressSync === undefined)
    throw new FleetError("UNSUPPORTED_VERSION", "the store was written by a newer Node, which compresses", {
      details: { node: process.versions.node, needed: ZSTD_NODE },
    });
  return zstdDecompressSync(bytes, { maxOutputLength: maxBytes });
}

export function encode(value: unknown): Bytes {
  const framed = packWithHeader(1, value);
  const smaller = compressed(framed.subarray(1));
  if (smaller) return Buffer.concat([Buffer.from([ZSTD]), smaller]);
  framed[0] = PLAIN;
  return framed;
}

/** The packed value after `headerBytes` unset bytes. Reserving the header here avoids a second copy. */
function packWithHeader(headerBytes: number, value: unknown): Buffer {
  return packr.pack(value, RESERVE_START_SPACE | headerBytes);
}

/** For records on which decisions depend: damage to them is detected at the next read. */
export function encodeChecked(value: unknown): Bytes {
  const framed = packWithHeader(1 + CHECK_BYTES, value);
  framed[0] = CHECKED;
  framed.writeUInt32BE(crc32(framed.subarray(1 + CHECK_BYTES)), 1);
  return framed;
}

const BIN_8 = 0xc4;
const BIN_16 = 0xc5;
const BIN_32 = 0xc6;
const ARRAY = 0x90;
const ARRAY_MAX = 15;

/** The same bytes as {@link encodeChecked} for at most 15 byte strings. The library takes twice as long for them, beside the rest of a commit. */
export function encodeCheckedBytes(parts: readonly Bytes[]): Bytes {
  if (parts.length > ARRAY_MAX) return encodeChecked(parts);
  let size = 2 + CHECK_BYTES;
  for (const { length } of parts) size += binHeaderBytes(length) + length;
  const framed = Buffer.allocUnsafe(size);
  framed[0] = CHECKED;
  let at = 1 + CHECK_BYTES;
  framed[at++] = ARRAY | parts.length;
  for (const part of parts) {
    at = writeBinHeader(framed, at, part.length);
    framed.set(part, at);
    at += part.length;
  }
  framed.writeUInt32BE(crc32(framed.subarray(1 + CHECK_BYTES)), 1);
  return framed;
}

function binHeaderBytes(length: number): number {
  return length < 0x100 ? 2 : length < 0x10000 ? 3 : 5;
}

/** Returns where the bytes begin. */
function writeBinHeader(out: Buffer, at: number, length: number): number {
  if (length < 0x100) {
    out[at] = BIN_8;
    return out.writeUInt8(length, at + 1);
  }
  out[at] = length < 0x10000 ? BIN_16 : BIN_32;
  return length < 0x10000 ? out.writeUInt16BE(length, at + 1) : out.writeUInt32BE(length, at + 1);
}

/** The packed value, after its CRC has been verified. */
function verifiedBody(bytes: Bytes): Bytes {
  const packed = bytes.subarray(CHECK_BYTES);
  const view = new DataView(bytes.buffer, bytes.byteOffset, CHECK_BYTES);
  if (view.getUint32(0) !== crc32(packed)) throw new RangeError("the CRC does not match");
  return packed;
}

/**
 * Decodes a value of {@link encodeChecked}. Throws {@link UnreadableValue} for any other format: otherwise a
 * damaged format byte would turn the value into one of an unchecked format.
 */
export function decodeChecked<T>(bytes: Bytes): T {
  if (bytes[0] !== CHECKED)
    throw new UnreadableValue("the value has another format than it was written with");
  return decode<T>(bytes);
}

/** Throws {@link UnreadableValue} for damaged bytes, UNSUPPORTED_VERSION for a newer format. */
export function decode<T>(bytes: Bytes): T {
  const body = bytes.subarray(1);
  try {
    if (bytes[0] === PLAIN) return packr.unpack(body) as T;
    if (bytes[0] === CHECKED) return packr.unpack(verifiedBody(body)) as T;
    if (bytes[0] === ZSTD) return packr.unpack(decompressed(body, LIMITS.payload_bytes_max)) as T;
  } catch (error) {
    if (error instanceof FleetError) throw error;
    throw new UnreadableValue("the value cannot be decoded", error);
  }
  if (bytes[0] === ENCRYPTED) throw new UnreadableValue("the value cannot be decrypted");
  throw new FleetError("UNSUPPORTED_VERSION", "the value was written by a newer version of Fleet", {
    details: { format: bytes[0] },
  });
}

/** Whether a value could not be decoded because it is damaged. A damaged format byte reads as a newer format. */
export function isDamage(error: unknown): boolean {
  if (error instanceof UnreadableValue || error instanceof TypeError) return true;
  return error instanceof FleetError && error.details.format !== undefined;
}

/** The result of `read`; null for damaged bytes. */
export function readable<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (isDamage(error)) return null;
    throw error;
  }
}
