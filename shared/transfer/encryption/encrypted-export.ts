/** Files of exports that are encrypted for their receivers. A reader need not know whether a file is encrypted. */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { EncryptedFile } from "../../integrity/encryption/files/encrypted-file.ts";
import {
  EncryptedFileError,
  HEAD_BYTES_MAX,
  isEncryptedFile,
  parseHead,
} from "../../integrity/encryption/files/file-format.ts";
import { openFileOpeners } from "../../integrity/encryption/files/file-keys.ts";
import { KeyEncryptionError } from "../../integrity/encryption/key-encryption-key.ts";
import { FleetError } from "../../protocol/errors.ts";

/** The option that names the keys which open a file, also for errors about them. */
export const DECRYPT_OPTION = "--decrypt-with";

/** The keys as their option names them. */
export interface NamedKeys {
  readonly sources: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The content of a file, at any position. */
export interface ReadableFile {
  /** The length of the content when the file was opened. */
  readonly size: number;
  readonly isEncrypted: boolean;
  /** Fewer than `length` bytes only at the end. Throws CORRUPT for bytes of an encrypted file that were changed. */
  read(at: number, length: number): Promise<Buffer>;
  close(): Promise<void>;
}

/** A file that is opened several times. */
export interface ReadablePath {
  readonly path: string;
  open(): Promise<ReadableFile>;
}

/** `keys`: those that open it, if it is encrypted. */
export const readablePath = (path: string, keys: NamedKeys): ReadablePath => ({
  path,
  open: () => openReadable(path, keys),
});

/** The content of an open file, which is not encrypted. The caller closes it. */
export const plainReadable = (file: FileHandle, size = 0): ReadableFile => ({
  size,
  isEncrypted: false,
  read: (at, length) => bytesAt(file, at, length),
  close: async () => {},
});

/**
 * Throws the errors of the file system; INVALID without a key that opens the file, CORRUPT for a file that was changed or cut off, UNSUPPORTED_VERSION for one of a
 * newer version of Fleet, and StartupError for a key that cannot be read.
 */
async function openReadable(path: string, keys: NamedKeys): Promise<ReadableFile> {
  const file = await open(path, constants.O_RDONLY);
  try {
    const { size } = await file.stat();
    const read = (at: number, length: number) => bytesAt(file, at, length);
    const begin = await read(0, HEAD_BYTES_MAX);
    const close = () => file.close();
    if (!isEncryptedFile(begin)) return { ...plainReadable(file, size), close };
    const opened = await refusing(path, async () => {
      const { head } = parseHead(begin);
      if (keys.sources.length === 0) throw keyNeeded(head.keys.map(({ id }) => id));
      const openers = await openFileOpeners(keys.sources, { setting: DECRYPT_OPTION, env: keys.env });
      return EncryptedFile.open(read, size, openers);
    });
    return {
      size: opened.size,
      isEncrypted: true,
      read: (at, length) => refusing(path, () => opened.read(at, length)),
      close,
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Whether the begin of the file is that of an encrypted one. */
export async function isEncryptedAt(path: string): Promise<boolean> {
  const file = await open(path, constants.O_RDONLY);
  try {
    return isEncryptedFile(await bytesAt(file, 0, HEAD_BYTES_MAX));
  } finally {
    await file.close();
  }
}

async function bytesAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  let got = 0;
  while (got < length) {
    const { bytesRead } = await file.read(bytes, got, length - got, at + got);
    if (bytesRead === 0) break;
    got += bytesRead;
  }
  return bytes.subarray(0, got);
}

async function refusing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof EncryptedFileError) throw refused(path, error);
    throw error instanceof KeyEncryptionError ? unusableKey(error) : error;
  }
}

function refused(path: string, error: EncryptedFileError): FleetError {
  const { problem, message, details } = error;
  if (problem === "no_key") return keyNeeded(details.key_ids as readonly string[], message);
  const code = problem === "format" ? "UNSUPPORTED_VERSION" : "CORRUPT";
  return new FleetError(code, message, { details: { file: path, ...details }, cause: error });
}

function keyNeeded(ids: readonly string[], message = "the file is encrypted"): FleetError {
  return new FleetError("INVALID", message, {
    fields: [{ path: DECRYPT_OPTION, expected: `a key with the id ${ids.join(" or ")}` }],
  });
}

/** A server of keys does not answer, or refuses. */
export function unusableKey({ message, details, cause }: KeyEncryptionError): FleetError {
  return new FleetError("UNAVAILABLE", message, { details, cause });
}
