/** Reads an encrypted file at any position. Bytes leave only when the tag of their part is verified. */
import { type KeyObject, timingSafeEqual } from "node:crypto";
import { DATA_KEY_BYTES } from "../encrypted-bytes.ts";
import { KeyEncryptionError } from "../key-encryption-key.ts";
import {
  decryptPart,
  derivedKeys,
  EncryptedFileError,
  FILE_KEY_CONTEXT,
  type FileHead,
  HEAD_BYTES_MAX,
  hashOfHead,
  PART_BYTES,
  PART_TAG_BYTES,
  parseHead,
} from "./file-format.ts";
import type { FileOpener } from "./x25519-key.ts";

/** At most `length` bytes from a position; fewer only at the end. */
export type ReadBytes = (at: number, length: number) => Promise<Buffer>;

const STORED_BYTES = PART_BYTES + PART_TAG_BYTES;

export class EncryptedFile {
  /** The length of the content. */
  readonly size: number;
  readonly #read: ReadBytes;
  readonly #key: KeyObject;
  readonly #hash: Buffer;
  readonly #start: number;
  readonly #parts: number;
  /** The part that was read last. */
  #open: { readonly number: number; readonly plain: Buffer } | undefined;

  private constructor(read: ReadBytes, of: { head: Buffer; key: KeyObject; bytes: number }) {
    const stored = of.bytes - of.head.length;
    this.#read = read;
    this.#key = of.key;
    this.#hash = hashOfHead(of.head);
    this.#start = of.head.length;
    this.#parts = Math.max(1, Math.ceil(stored / STORED_BYTES));
    this.size = Math.max(0, stored - this.#parts * PART_TAG_BYTES);
  }

  /** `bytes`: the length of the file. Verifies that its end is there. Throws {@link EncryptedFileError} and {@link KeyEncryptionError}. */
  static async open(read: ReadBytes, bytes: number, keys: readonly FileOpener[]): Promise<EncryptedFile> {
    const { head, bytes: first } = parseHead(await read(0, HEAD_BYTES_MAX));
    const key = await keyOf(head, keys);
    const file = new EncryptedFile(read, { head: first, key, bytes });
    await file.#requireEnd();
    return file;
  }

  /** At most `length` bytes of the content from a position. Throws {@link EncryptedFileError} if they were changed. */
  async read(at: number, length: number): Promise<Buffer> {
    const found: Buffer[] = [];
    const end = Math.min(this.size, at + length);
    for (let from = at; from < end; ) {
      const number = Math.floor(from / PART_BYTES);
      const plain = await this.#part(number);
      const begin = from - number * PART_BYTES;
      const taken = plain.subarray(begin, begin + end - from);
      if (taken.length === 0) throw changed(number);
      found.push(taken);
      from += taken.length;
    }
    return Buffer.concat(found);
  }

  async #part(number: number): Promise<Buffer> {
    if (this.#open?.number === number) return this.#open.plain;
    const plain = this.#decrypted(number, await this.#stored(number), number === this.#parts - 1);
    if (plain === null) throw changed(number);
    this.#open = { number, plain };
    return plain;
  }

  #stored(number: number): Promise<Buffer> {
    return this.#read(this.#start + number * STORED_BYTES, STORED_BYTES);
  }

  #decrypted(number: number, stored: Buffer, isLast: boolean): Buffer | null {
    return decryptPart({ key: this.#key, head: this.#hash, number, isLast }, stored);
  }

  /** A file that was cut off ends with a part that is not the last, or with a piece of one. */
  async #requireEnd(): Promise<void> {
    const number = this.#parts - 1;
    const stored = await this.#stored(number);
    const plain = this.#decrypted(number, stored, true);
    if (plain !== null) {
      this.#open = { number, plain };
      return;
    }
    const isCut = stored.length < STORED_BYTES || this.#decrypted(number, stored, false) !== null;
    if (!isCut) throw changed(number);
    throw new EncryptedFileError("cut", "the end of the file is missing or was changed", {
      part: number + 1,
    });
  }
}

const changed = (number: number): EncryptedFileError =>
  new EncryptedFileError("changed", "a part of the file was changed", { part: number + 1 });

async function keyOf(head: FileHead, keys: readonly FileOpener[]): Promise<KeyObject> {
  const own = keys.flatMap((key) =>
    head.keys.filter(({ id }) => id === key.id).map((one) => ({ key, ...one })),
  );
  if (own.length === 0)
    throw new EncryptedFileError("no_key", "none of the given keys opens the file", {
      key_ids: head.keys.map(({ id }) => id),
    });
  for (const { key, wrapped } of own) {
    const fileKey = await unwrapped(key, wrapped);
    if (fileKey?.length !== DATA_KEY_BYTES) continue;
    const { parts, commitment } = derivedKeys(fileKey, head.salt);
    if (commitment.length === head.commitment.length && timingSafeEqual(commitment, head.commitment))
      return parts;
  }
  throw new EncryptedFileError("head", "the wrapped key in the file was changed");
}

/** null: it was changed. */
async function unwrapped(key: FileOpener, wrapped: Buffer): Promise<Uint8Array | null> {
  try {
    return await key.unwrap(wrapped, FILE_KEY_CONTEXT);
  } catch (error) {
    if (error instanceof KeyEncryptionError && error.kind === "invalid") return null;
    throw error;
  }
}
