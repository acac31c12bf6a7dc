/**
 * Values on disk: one byte that says the format, then MessagePack, compressed with zstd when that makes it smaller. Drivers see
 * bytes, callers see records, and this is the one place in between.
 */
import { crc32, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { Packr, RESERVE_START_SPACE } from "msgpackr";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Bytes } from "../../store/store.ts";

const PLAIN = 0x01;
const ZSTD = 0x02;
/** MessagePack behind its CRC-32: against damage, not against forgery, which the audit chain is for. */
const CHECKED = 0x03;
const CHECK_BYTES = 4;

// Plain maps instead of the library's record extension: any MessagePack reader can read the store.
const packr = new Packr({ useRecords: false, variableMapSize: true });

export class UnreadableValue extends Error {
  constructor(reason: string, cause?: unknown) {
    super(reason, cause === undefined ? undefined : { cause });
    this.name = "UnreadableValue";
  }
}

/** Compressed bytes when that saves anything, else null. */
export function compressed(bytes: Bytes): Bytes | null {
  if (bytes.length < LIMITS.compress_bytes_min) return null;
  const smaller = zstdCompressSync(bytes);
  return smaller.length < bytes.length ? smaller : null;
}

/** `maxBytes` bounds what a damaged or hostile value can make of memory. */
export function decompressed(bytes: Bytes, maxBytes: number): Bytes {
  return zstdDecompressSync(bytes, { maxOutputLength: maxBytes });
}

export function encode(value: unknown): Bytes {
  const framed = packedBehind(1, value);
  const smaller = compressed(framed.subarray(1));
  if (smaller) return Buffer.concat([Buffer.from([ZSTD]), smaller]);
  framed[0] = PLAIN;
  return framed;
}

/** The packed value behind `room` bytes that are free to be written: no second copy. */
function packedBehind(room: number, value: unknown): Buffer {
  return packr.pack(value, RESERVE_START_SPACE | room);
}

/** For records that others are decided by: damage to them is noticed at the next read. */
export function encodeChecked(value: unknown): Bytes {
  const framed = packedBehind(1 + CHECK_BYTES, value);
  framed[0] = CHECKED;
  framed.writeUInt32BE(crc32(framed.subarray(1 + CHECK_BYTES)), 1);
  return framed;
}

function checked(bytes: Bytes): Bytes {
  const packed = bytes.subarray(CHECK_BYTES);
  const view = new DataView(bytes.buffer, bytes.byteOffset, CHECK_BYTES);
  if (view.getUint32(0) !== crc32(packed)) throw new RangeError("the check does not match");
  return packed;
}

/**
 * What {@link encodeChecked} made. Throws {@link UnreadableValue} for anything else: a damaged first byte must not make the rest pass
 * for a value of another format, which nothing checks.
 */
export function decodeChecked<T>(bytes: Bytes): T {
  if (bytes[0] !== CHECKED)
    throw new UnreadableValue("the value does not have the format that it was written in");
  return decode<T>(bytes);
}

/** Throws {@link UnreadableValue} for damaged bytes, UNSUPPORTED_VERSION for a newer format. */
export function decode<T>(bytes: Bytes): T {
  const body = bytes.subarray(1);
  try {
    if (bytes[0] === PLAIN) return packr.unpack(body) as T;
    if (bytes[0] === CHECKED) return packr.unpack(checked(body)) as T;
    if (bytes[0] === ZSTD) return packr.unpack(decompressed(body, LIMITS.payload_bytes_max)) as T;
  } catch (error) {
    throw new UnreadableValue("the value cannot be decoded", error);
  }
  throw new FleetError("UNSUPPORTED_VERSION", "the value was written by a newer version of Fleet", {
    details: { format: bytes[0] },
  });
}
