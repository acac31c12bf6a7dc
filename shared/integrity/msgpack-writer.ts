/**
 * MessagePack of plain JSON data, as JSON.stringify would write it: members that are undefined are left out.
 *
 * The library's writer asks every object for its constructor and `toJSON`, which are ordinary names in a checkpoint's unknown
 * fields; one such checkpoint would make every answer that holds it fail.
 */
import { FleetError } from "../protocol/errors.ts";

const FIRST_BYTES = 1_024;

class Writing {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #at = 0;

  written(): Uint8Array {
    return this.#bytes.subarray(0, this.#at);
  }

  value(value: unknown): void {
    if (value === null) this.#byte(0xc0);
    else if (typeof value === "string") this.#text(value);
    else if (typeof value === "number") this.#number(value);
    else if (typeof value === "boolean") this.#byte(value ? 0xc3 : 0xc2);
    else if (Array.isArray(value)) this.#array(value);
    else if (typeof value === "object") this.#map(value);
    else throw new FleetError("INTERNAL", "a value that is no JSON data cannot be sent");
  }

  /** Makes room for `size` bytes; returns where they begin. */
  #room(size: number): number {
    const at = this.#at;
    const needed = at + size;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, at);
      this.#bytes = larger;
    }
    this.#at = needed;
    return at;
  }

  #byte(byte: number): void {
    const at = this.#room(1);
    this.#bytes[at] = byte;
  }

  #long(head: number, value: number): void {
    const at = this.#room(5);
    this.#bytes[at] = head;
    this.#bytes.writeUInt32BE(value, at + 1);
  }

  #number(value: number): void {
    if (Number.isInteger(value) && value >= -0x20 && value < 0x80) this.#byte(value & 0xff);
    else if (Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff) this.#long(0xce, value);
    else this.#double(value);
  }

  /** Holds every number that JSON data has, larger integers included. */
  #double(value: number): void {
    const at = this.#room(9);
    this.#bytes[at] = 0xcb;
    this.#bytes.writeDoubleBE(value, at + 1);
  }

  #text(text: string): void {
    const size = Buffer.byteLength(text);
    if (size < 0x20) this.#byte(0xa0 | size);
    else this.#long(0xdb, size);
    const at = this.#room(size);
    this.#bytes.write(text, at);
  }

  #array(array: readonly unknown[]): void {
    if (array.length < 0x10) this.#byte(0x90 | array.length);
    else this.#long(0xdd, array.length);
    for (const item of array) this.value(item);
  }

  #map(object: object): void {
    const members = Object.entries(object).filter(([, value]) => value !== undefined);
    if (members.length < 0x10) this.#byte(0x80 | members.length);
    else this.#long(0xdf, members.length);
    for (const [key, value] of members) {
      this.#text(key);
      this.value(value);
    }
  }
}

/** Throws INTERNAL for what is no JSON data, which can only be a fault of the caller's program. */
export function writeMessagePack(value: unknown): Uint8Array {
  const writing = new Writing();
  writing.value(value);
  return writing.written();
}
