/**
 * The elements of a key: text, numbers, ids and bytes, packed as FoundationDB's tuple layer packs them. Text and
 * ids are packed by hand, because the library packs byte by byte and every transaction needs dozens of keys. A
 * test compares them with the library.
 */
import tuple from "fdb-tuple";
import type { Bytes, KeyRange } from "../../store/store.ts";

type Element = string | number | Uint8Array;

export const UUID_BYTES = 16;
/** The keys of 10,000 agents have about as many parts: a cache that is too small for them only costs time. */
const CACHED_PARTS_MAX = 40_000;

/** One packed element. Numbers must be safe integers, because floats do not survive a round trip. */
export function element(value: Element): Buffer {
  if (typeof value === "number" && !Number.isSafeInteger(value))
    throw new RangeError("a key holds safe integers only");
  if (typeof value === "string" && !value.isWellFormed())
    throw new RangeError("a key holds well-formed text only");
  if (value instanceof Uint8Array) return tuple.pack([Buffer.from(value)]) as Buffer;
  if (typeof value === "string" && !value.includes("\0")) return text(value);
  if (typeof value === "number" && value > 0) return positive(value);
  return tuple.pack([value]) as Buffer;
}

/** The tuple type code that precedes a text. The byte after the text is 0. */
const TEXT_CODE = 0x02;

/** No 0 is in the text. */
function text(value: string): Buffer {
  const packed = Buffer.allocUnsafe(2 + Buffer.byteLength(value));
  packed[0] = TEXT_CODE;
  packed.write(value, 1);
  packed[packed.length - 1] = 0;
  return packed;
}

/** The tuple type code of the number 0. That of a positive number is larger by the number of its bytes. */
const ZERO_CODE = 0x14;
const NUMBER_BYTES_MAX = 7;

/** The bytes of the number from the highest that is not 0. */
function positive(value: number): Buffer {
  let length = 1;
  for (let bound = 256; value >= bound && length < NUMBER_BYTES_MAX; bound *= 256) length += 1;
  const packed = Buffer.allocUnsafe(1 + length);
  packed[0] = ZERO_CODE + length;
  let rest = value;
  for (let i = length; i > 0; i -= 1) {
    packed[i] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  return packed;
}

/**
 * The number at the end of a key. undefined: the key ends with another element, or with a number that this does not read: a negative one, or one
 * of a key with other elements than texts, ids and numbers.
 */
export function endingNumber(key: Bytes): number | undefined {
  let number: number | undefined;
  for (let at = 0; at < key.length; ) {
    const code = key[at]!;
    number = undefined;
    if (code === TEXT_CODE) {
      const end = endOfText(key, at + 1);
      if (end < 0) return undefined;
      at = end;
    } else if (code === UUID_CODE) {
      at += 1 + UUID_BYTES;
    } else if (code >= ZERO_CODE && code <= ZERO_CODE + NUMBER_BYTES_MAX) {
      const end = at + 1 + code - ZERO_CODE;
      number = 0;
      for (at += 1; at < end; at += 1) number = number * 256 + key[at]!;
    } else {
      return undefined;
    }
  }
  return Number.isSafeInteger(number) ? number : undefined;
}

/** The offset after a text and its 0. A text with a 0 has 0xff behind it, and is left to the library. */
function endOfText(key: Bytes, from: number): number {
  const zero = key.indexOf(0, from);
  return zero < 0 || key[zero + 1] === 0xff ? -1 : zero + 1;
}

/**
 * Caches packed key parts, which recur often. The cache is bounded, so that many tenants or tasks cannot fill
 * the memory.
 */
export function cached<T>(pack: (part: T) => Buffer): (part: T) => Buffer {
  const known = new Map<T, Buffer>();
  return (part) => {
    const found = known.get(part);
    if (found) return found;
    if (known.size >= CACHED_PARTS_MAX) known.clear();
    const packed = pack(part);
    known.set(part, packed);
    return packed;
  };
}

export const name = cached<string>((text) => element(text));
export const number = cached<number>((value) => element(value));

/** The tuple type code that precedes the 16 bytes of a UUID. */
const UUID_CODE = 0x30;

/** A checkpoint or command id: 17 bytes that keep the time order of ids. A cache would not help. */
export function uuid(id: string): Buffer {
  const packed = Buffer.allocUnsafe(1 + UUID_BYTES);
  packed[0] = UUID_CODE;
  if (packed.write(hexOf(id), 1, "hex") !== UUID_BYTES) throw new RangeError("a key holds whole UUIDs only");
  return packed;
}

/**
 * The next `count` texts of a key, from the offset of the first, and the offset after them. For texts without a 0,
 * such as tokens.
 */
export function parseTexts(key: Bytes, from: number, count: number): { texts: string[]; end: number } {
  const bytes = Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  const texts: string[] = [];
  let end = from;
  while (texts.length < count) {
    const zero = bytes.indexOf(0, end);
    texts.push(bytes.toString("utf8", end + 1, zero));
    end = zero + 1;
  }
  return { texts, end };
}

function hexOf(id: string): string {
  return id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18) + id.slice(19, 23) + id.slice(24);
}

export function uuidBytes(id: string): Buffer {
  return Buffer.from(hexOf(id), "hex");
}

export function formatUuid(bytes: Bytes): string {
  const hex = Buffer.from(bytes).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** The keys below a key. */
export function children(base: Buffer): KeyRange {
  return {
    begin: Buffer.concat([base, Buffer.from([0x00])]),
    end: Buffer.concat([base, Buffer.from([0xff])]),
  };
}

/** All elements of a key. */
export const elementsOf = (key: Bytes): unknown[] => tuple.unpack(Buffer.from(key)) as unknown[];

/** Reads checkpoint and version out of a `quarantine` key. */
export function parseQuarantine(key: Bytes): { id: string; version: number } {
  const [id, version] = elementsOf(key).slice(-2) as [{ value: Buffer }, number];
  return { id: formatUuid(id.value), version };
}

/** Reads parent and child out of a `children` key. */
export function parseLink(key: Bytes): { parent: string; child: string } {
  const [parent, child] = elementsOf(key).slice(-2) as { value: Buffer }[];
  return { parent: formatUuid(parent!.value), child: formatUuid(child!.value) };
}
