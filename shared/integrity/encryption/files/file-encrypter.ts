/** Encrypts a file from its begin to its end, in constant memory. */
import { type KeyObject, randomBytes } from "node:crypto";
import { DATA_KEY_BYTES } from "../encrypted-bytes.ts";
import {
  derivedKeys,
  encryptPart,
  FILE_KEY_CONTEXT,
  FILE_SALT_BYTES,
  HEAD_BYTES_MAX,
  hashOfHead,
  headBytes,
  PART_BYTES,
} from "./file-format.ts";
import type { FileReceiver } from "./x25519-key.ts";

export class FileEncrypter {
  /** The begin of the file, which is written first. */
  readonly head: Buffer;
  readonly #key: KeyObject;
  readonly #hash: Buffer;
  readonly #open = Buffer.alloc(PART_BYTES);
  #filled = 0;
  #number = 0;

  private constructor(head: Buffer, key: KeyObject) {
    this.head = head;
    this.#key = key;
    this.#hash = hashOfHead(head);
  }

  /** Each of the receivers can open the file alone. Throws KeyEncryptionError. */
  static async begin(receivers: readonly FileReceiver[]): Promise<FileEncrypter> {
    if (receivers.length === 0) throw new TypeError("a file is encrypted for one key at least");
    const fileKey = randomBytes(DATA_KEY_BYTES);
    const salt = randomBytes(FILE_SALT_BYTES);
    const keys = [];
    for (const receiver of receivers)
      keys.push({ id: receiver.id, wrapped: Buffer.from(await receiver.wrap(fileKey, FILE_KEY_CONTEXT)) });
    const { parts, commitment } = derivedKeys(fileKey, salt);
    const head = headBytes({ keys, salt, commitment });
    if (head.length > HEAD_BYTES_MAX) throw new TypeError("the wrapped keys of a file are too long");
    return new FileEncrypter(head, parts);
  }

  /** The parts that are full now. A full one stays back until it is known whether it is the last. */
  add(bytes: Uint8Array): Buffer {
    const done: Buffer[] = [];
    for (let at = 0; at < bytes.length; ) {
      if (this.#filled === PART_BYTES) done.push(this.#part(false));
      const taken = bytes.subarray(at, at + PART_BYTES - this.#filled);
      this.#open.set(taken, this.#filled);
      this.#filled += taken.length;
      at += taken.length;
    }
    return Buffer.concat(done);
  }

  /** The last part. */
  end(): Buffer {
    return this.#part(true);
  }

  #part(isLast: boolean): Buffer {
    const of = { key: this.#key, head: this.#hash, number: this.#number, isLast };
    const part = encryptPart(of, this.#open.subarray(0, this.#filled));
    this.#number += 1;
    this.#filled = 0;
    return part;
  }
}
