/**
 * Seals the files of the mirror: each with its tenant, its task and its name as address, so that a file that was moved does not open. The key lies
 * beside the files, wrapped by a root key; no task has a dot in its name.
 */
import { type DataKey, decryptBytes, encryptBytes } from "../../integrity/encryption/encrypted-bytes.ts";
import type { MirroredTask } from "../place.ts";

export class MirrorSeal {
  /** Can be moved to another thread. */
  readonly key: DataKey;

  constructor(key: DataKey) {
    this.key = key;
  }

  /** Of the key. Not secret. */
  get id(): string {
    return Buffer.from(this.key.id).toString("hex");
  }

  seal(content: Uint8Array, place: MirroredTask, name: string): Buffer {
    return encryptBytes(this.key, content, addressOf(place, name));
  }

  /** null: the bytes were changed, or are of another file or another key. */
  open(sealed: Uint8Array, place: MirroredTask, name: string): Buffer | null {
    return decryptBytes(this.key, sealed, addressOf(place, name));
  }
}

/** No part has a line break. */
const addressOf = ({ tenant, task }: MirroredTask, name: string): Buffer =>
  Buffer.from(`fleet/mirror/v1\n${tenant}\n${task}\n${name}`);
