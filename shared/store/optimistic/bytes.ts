/** Numbers (big-endian), byte strings with their length, and keys, in sequence in one block of memory. */
import type { Bytes } from "../store.ts";

/** Appends to a growing buffer, which `take` transfers. */
export class ByteWriter {
  #buffer: Buffer<ArrayBuffer>;
  #length = 0;

  /** `initial` is overwritten. It must own its memory if `take` is called. */
  constructor(initial: Buffer<ArrayBuffer>) {
    this.#buffer = initial;
  }

  get length(): number {
    return this.#length;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Returns the whole underlying memory for a transfer; the writer must not be used afterwards. */
  take(): ArrayBuffer {
    return this.#buffer.buffer;
  }

  u8(value: number): void {
    this.#room(1);
    this.#buffer[this.#length++] = value;
  }

  u16(value: number): void {
    this.#room(2);
    this.#length = this.#buffer.writeUInt16BE(value, this.#length);
  }

  u32(value: number): void {
    this.#room(4);
    this.#length = this.#buffer.writeUInt32BE(value, this.#length);
  }

  i64(value: bigint): void {
    this.#room(8);
    this.#length = this.#buffer.writeBigInt64BE(value, this.#length);
  }

  raw(bytes: Bytes): void {
    this.#room(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  sized(bytes: Bytes): void {
    this.u32(bytes.length);
    this.raw(bytes);
  }

  /** A key in its text form. */
  key(text: string): void {
    this.u32(text.length);
    this.#room(text.length);
    this.#length += this.#buffer.write(text, this.#length, "latin1");
  }

  setU8(offset: number, value: number): void {
    this.#buffer[offset] = value;
  }

  setU32(offset: number, value: number): void {
    this.#buffer.writeUInt32BE(value, offset);
  }

  #room(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    grown.set(this.bytes);
    this.#buffer = grown;
  }
}

/** Reads the output of {@link ByteWriter}. Byte strings are views, not copies. */
export class ByteReader {
  readonly #buffer: Buffer;
  offset = 0;

  constructor(buffer: ArrayBuffer) {
    this.#buffer = Buffer.from(buffer);
  }

  u8(): number {
    return this.#buffer[this.offset++]!;
  }

  u16(): number {
    this.offset += 2;
    return this.#buffer.readUInt16BE(this.offset - 2);
  }

  u32(): number {
    this.offset += 4;
    return this.#buffer.readUInt32BE(this.offset - 4);
  }

  i64(): bigint {
    this.offset += 8;
    return this.#buffer.readBigInt64BE(this.offset - 8);
  }

  sized(): Buffer {
    const length = this.u32();
    this.offset += length;
    return this.#buffer.subarray(this.offset - length, this.offset);
  }
}
