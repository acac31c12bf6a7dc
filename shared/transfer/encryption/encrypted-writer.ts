/**
 * Writes a file that is encrypted for its receivers. Until its end it has another name, and then it takes its place without replacing a file: a writer that is killed
 * leaves no file that looks whole, and never a plain byte.
 */
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { FileEncrypter } from "../../integrity/encryption/files/file-encrypter.ts";
import { openFileReceivers } from "../../integrity/encryption/files/file-keys.ts";
import { KeyEncryptionError } from "../../integrity/encryption/key-encryption-key.ts";
import { type NamedKeys, unusableKey } from "./encrypted-export.ts";
import { placeOnce } from "./place-once.ts";

/** The option that names the keys for which a file is encrypted, also for errors about them. */
export const ENCRYPT_OPTION = "--encrypt-with";

export class EncryptedWriter {
  readonly #path: string;
  readonly #draft: string;
  readonly #file: FileHandle;
  readonly #encrypter: FileEncrypter;

  private constructor(path: string, draft: string, file: FileHandle, encrypter: FileEncrypter) {
    this.#path = path;
    this.#draft = draft;
    this.#file = file;
    this.#encrypter = encrypter;
  }

  /** Throws the errors of the file system, StartupError for a key that cannot be read, and UNAVAILABLE. */
  static async create(path: string, { sources, env }: NamedKeys): Promise<EncryptedWriter> {
    const encrypter = await encrypterFor({ sources, env });
    const draft = `${path}.${randomBytes(6).toString("hex")}.part`;
    const file = await open(draft, "wx", 0o600);
    const writer = new EncryptedWriter(path, draft, file, encrypter);
    try {
      await writer.#append(encrypter.head);
      return writer;
    } catch (error) {
      await writer.discard();
      throw error;
    }
  }

  async write(bytes: Uint8Array): Promise<void> {
    await this.#append(this.#encrypter.add(bytes));
  }

  /** The file is whole and on disk when it resolves. Throws the errors of the file system, EEXIST among them; then nothing is left. */
  async finish(): Promise<void> {
    try {
      await this.#append(this.#encrypter.end());
      await this.#file.sync();
      await placeOnce(this.#draft, this.#path);
    } finally {
      await this.discard();
    }
    await syncFolderOf(this.#path);
  }

  async discard(): Promise<void> {
    await this.#file.close();
    await rm(this.#draft, { force: true });
  }

  async #append(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, from, bytes.length - from);
      from += bytesWritten;
    }
  }
}

async function encrypterFor({ sources, env }: NamedKeys): Promise<FileEncrypter> {
  const receivers = await openFileReceivers(sources, { setting: ENCRYPT_OPTION, env });
  try {
    return await FileEncrypter.begin(receivers);
  } catch (error) {
    throw error instanceof KeyEncryptionError ? unusableKey(error) : error;
  }
}

/** The name of a new file survives a power cut. */
export async function syncFolderOf(path: string): Promise<void> {
  const folder = await open(dirname(path), constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
