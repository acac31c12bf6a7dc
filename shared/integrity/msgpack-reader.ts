/**
 * Strict MessagePack: the part of the format that JSON has too, read so that no two readers of one body can
 * see different values.
 *
 * The library's reader is meant for trusted peers: it keeps the last of two equal keys, turns integer and nil
 * keys into strings, renames `__proto__`, accepts broken UTF-8 and follows extension types, even into cycles.
 * All of these are refused here.
 */
import { type FieldProblem, FleetError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

class MessagePackReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #path: string[] = [];
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  whole(): unknown {
    const value = this.#value();
    if (this.#at !== this.#bytes.length) throw this.#refusal("the end after one value", "more bytes");
    return value;
  }

  /** Consumes `size` bytes and returns their offset. */
  #take(size: number): number {
    const at = this.#at;
    if (at + size > this.#bytes.length) throw this.#refusal("a whole MessagePack value", "too few bytes");
    this.#at = at + size;
    return at;
  }

  #value(): unknown {
    const head = this.#bytes[this.#take(1)] as number;
    if (head < 0x80) return head;
    if (head < 0x90) return this.#map(head & 0x0f);
    if (head < 0xa0) return this.#array(head & 0x0f);
    if (head < 0xc0) return this.#text(head & 0x1f);
    if (head >= 0xe0) return head - 0x100;
    switch (head) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xd9:
        return this.#text(this.#view.getUint8(this.#take(1)));
      case 0xda:
        return this.#text(this.#view.getUint16(this.#take(2)));
      case 0xdb:
        return this.#text(this.#view.getUint32(this.#take(4)));
      case 0xdc:
        return this.#array(this.#view.getUint16(this.#take(2)));
      case 0xdd:
        return this.#array(this.#view.getUint32(this.#take(4)));
      case 0xde:
        return this.#map(this.#view.getUint16(this.#take(2)));
      case 0xdf:
        return this.#map(this.#view.getUint32(this.#take(4)));
      default:
        return this.#number(head);
    }
  }

  #number(head: number): number {
    switch (head) {
      case 0xca:
        return this.#view.getFloat32(this.#take(4));
      case 0xcb:
        return this.#view.getFloat64(this.#take(8));
      case 0xcc:
        return this.#view.getUint8(this.#take(1));
      case 0xcd:
        return this.#view.getUint16(this.#take(2));
      case 0xce:
        return this.#view.getUint32(this.#take(4));
      case 0xcf:
        return this.#integer(this.#view.getBigUint64(this.#take(8)));
      case 0xd0:
        return this.#view.getInt8(this.#take(1));
      case 0xd1:
        return this.#view.getInt16(this.#take(2));
      case 0xd2:
        return this.#view.getInt32(this.#take(4));
      case 0xd3:
        return this.#integer(this.#view.getBigInt64(this.#take(8)));
      default:
        // Binary and extension types, and the one byte that the format does not use.
        throw this.#refusal("a value that JSON has too", `the type byte 0x${head.toString(16)}`);
    }
  }

  #integer(value: bigint): number {
    const number = Number(value);
    if (Number.isSafeInteger(number)) return number;
    throw this.#refusal("an integer within ±(2^53 - 1); send larger ones as strings", "a larger integer");
  }

  #text(size: number): string {
    const at = this.#take(size);
    try {
      return decoder.decode(this.#bytes.subarray(at, at + size));
    } catch {
      throw this.#refusal("UTF-8 text");
    }
  }

  #array(length: number): unknown[] {
    this.#descend();
    // Not allocated in advance: the length is only the sender's claim.
    const array: unknown[] = [];
    for (let i = 0; i < length; i += 1) array.push(this.#within(String(i)));
    return array;
  }

  #map(size: number): Record<string, unknown> {
    this.#descend();
    const map: Record<string, unknown> = {};
    for (let i = 0; i < size; i += 1) {
      const key = this.#key();
      if (key === "__proto__") throw this.#refusal("another key", key);
      if (Object.hasOwn(map, key)) {
        this.#path.push(key);
        throw this.#refusal("each member name once", "a duplicate");
      }
      map[key] = this.#within(key);
    }
    return map;
  }

  #key(): string {
    const head = this.#bytes[this.#at] ?? 0xa0;
    const isText = (head >= 0xa0 && head < 0xc0) || (head >= 0xd9 && head <= 0xdb);
    if (!isText) throw this.#refusal("strings as keys of a map", `the type byte 0x${head.toString(16)}`);
    return this.#value() as string;
  }

  #within(step: string): unknown {
    this.#path.push(step);
    const value = this.#value();
    this.#path.pop();
    return value;
  }

  /** The gate checks the depth too; this check prevents a hostile body from exhausting the stack. */
  #descend(): void {
    if (this.#path.length >= LIMITS.depth_max) {
      throw this.#refusal(`at most ${LIMITS.depth_max} levels of nesting`, `${this.#path.length + 1} levels`);
    }
  }

  #refusal(expected: string, got?: string): FleetError {
    const field: FieldProblem = { path: this.#path.join("."), expected, ...(got !== undefined && { got }) };
    return new FleetError("INVALID", "the body is not MessagePack of plain JSON data", { fields: [field] });
  }
}

/**
 * Parses one MessagePack value. Throws INVALID with the path of the problem; numbers are left to the gate.
 */
export function parseMessagePack(bytes: Uint8Array): unknown {
  return new MessagePackReader(bytes).whole();
}
