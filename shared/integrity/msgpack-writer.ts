/**
 * MessagePack of plain JSON data, with the members that JSON.stringify would write: undefined ones are left
 * out.
 *
 * The library's writer reads `constructor` and `toJSON` of every object. Both are ordinary names in a
 * checkpoint's unknown fields, and one such checkpoint would make every answer that contains it fail.
 */
import { FleetError } from "../protocol/errors.ts";

const FIRST_BYTES = 1_024;

class MessagePackWriter {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #at = 0;

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#at);
  }

  value(value: unknown): void {
    if (value === null) this.#byte(0xc0);
    else if (typeof value === "string") this.#text(value);
    else if (typeof value === "number") this.#number(value);
    else if (typeof value === "boolean") this.#byte(value ? 0xc3 : 0xc2);
    else if (Array.isArray(value)) this.#array(value);
    else if (typeof value === "object") this.#map(value);
    else throw new FleetError("INTERNAL", "a value that is not JSON data cannot be sent");
  }

  /** Reserves `size` bytes and returns their offset. */
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

  /** A double holds every number of JSON data, including larger integers. */
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

/** Throws INTERNAL unless the value is JSON data; anything else is a defect of the caller. */
export function writeMessagePack(value: unknown): Uint8Array {
  const writer = new MessagePackWriter();
  writer.value(value);
  return writer.bytes;
}
