/**
 * The form of an encrypted file, such as an export:
 *
 *     fleet-encrypted 1 <line feed>
 *     <the head as one line of JSON> <line feed>
 *     <part> <part> …
 *
 * The head has the key of the file, wrapped for each of its receivers. Each part is AES-256-GCM over at most {@link PART_BYTES}, with its tag behind it.
 * All parts but the last one are full, so any position of the content is found without reading what is before it. The hash of both lines, the number of
 * the part and whether it is the last one are associated data: parts that were moved, removed or taken from another file do not decrypt, and a file that was
 * cut off has no last part. The key encrypts one file only, so the number of the part is a nonce that never repeats.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createSecretKey,
  hkdfSync,
  type KeyObject,
} from "node:crypto";
import { DATA_KEY_BYTES } from "../encrypted-bytes.ts";

const MAGIC = "fleet-encrypted ";
const FORMAT = 1;
export const PART_BYTES = 65_536;
export const PART_TAG_BYTES = 16;
/** The lines before the parts are no longer. */
export const HEAD_BYTES_MAX = 65_536;
/** What the wrapped keys are bound to. */
export const FILE_KEY_CONTEXT = "fleet/encrypted-file/v1";
const SALT_BYTES = 16;
const NONCE_BYTES = 12;
const CIPHER = "aes-256-gcm";

/**
 * - `format`: a newer version of Fleet wrote it.
 * - `head`: its first lines are not what a writer writes.
 * - `no_key`: none of the given keys is one of those for which it was encrypted.
 * - `changed`: bytes of it were changed.
 * - `cut`: its end is missing.
 */
export type EncryptedFileProblem = "format" | "head" | "no_key" | "changed" | "cut";

/** `message` is static text. The facts are in `details`, and are never secret. */
export class EncryptedFileError extends Error {
  readonly problem: EncryptedFileProblem;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    problem: EncryptedFileProblem,
    message: string,
    details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
    this.name = "EncryptedFileError";
    this.problem = problem;
    this.details = details;
  }
}

/** The key of a file, wrapped by the key of a receiver. */
export interface WrappedFileKey {
  /** The id of the key that wraps it. */
  readonly id: string;
  readonly wrapped: Buffer;
}

export interface FileHead {
  readonly keys: readonly WrappedFileKey[];
  readonly salt: Buffer;
  /** Follows from the key of the file: GCM alone would let one file decrypt with two keys, to different contents. */
  readonly commitment: Buffer;
}

/** Whether the bytes are the begin of an encrypted file, of any format. */
export const isEncryptedFile = (begin: Uint8Array): boolean =>
  Buffer.from(begin.subarray(0, MAGIC.length)).equals(Buffer.from(MAGIC));

/** The lines before the parts. */
export function headBytes({ keys, salt, commitment }: FileHead): Buffer {
  const head = {
    keys: keys.map(({ id, wrapped }) => ({ id, wrapped: wrapped.toString("base64") })),
    salt: salt.toString("base64"),
    commitment: commitment.toString("base64"),
  };
  return Buffer.from(`${MAGIC}${FORMAT}\n${JSON.stringify(head)}\n`);
}

/** `begin`: the first {@link HEAD_BYTES_MAX} bytes of the file. `end`: where its parts begin. Throws {@link EncryptedFileError}. */
export function parseHead(begin: Buffer): { readonly head: FileHead; readonly bytes: Buffer } {
  const first = begin.indexOf("\n");
  const format = begin.toString("latin1", MAGIC.length, Math.max(first, 0));
  if (!isEncryptedFile(begin) || !/^[1-9]\d{0,8}$/.test(format))
    throw new EncryptedFileError("head", "the file is not encrypted by Fleet");
  if (Number(format) > FORMAT)
    throw new EncryptedFileError("format", "a newer version of Fleet encrypted the file", {
      format: Number(format),
      supported: FORMAT,
    });
  const second = begin.indexOf("\n", first + 1);
  if (second < 0)
    throw new EncryptedFileError(
      begin.length < HEAD_BYTES_MAX ? "cut" : "head",
      "the first lines have no end",
    );
  const head = headOf(begin.toString("utf8", first + 1, second));
  if (head === undefined) throw new EncryptedFileError("head", "the first lines were changed");
  return { head, bytes: begin.subarray(0, second + 1) };
}

function headOf(text: string): FileHead | undefined {
  try {
    const { keys, salt, commitment } = JSON.parse(text) as Record<string, unknown>;
    const head = {
      keys: (keys as { id: unknown; wrapped: unknown }[]).map(({ id, wrapped }) => ({
        id: textOf(id),
        wrapped: Buffer.from(textOf(wrapped), "base64"),
      })),
      salt: Buffer.from(textOf(salt), "base64"),
      commitment: Buffer.from(textOf(commitment), "base64"),
    };
    // So that no two texts have the same meaning.
    return headBytes(head).toString().endsWith(`\n${text}\n`) && head.salt.length === SALT_BYTES
      ? head
      : undefined;
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string {
  if (typeof value !== "string") throw new TypeError("expected a text");
  return value;
}

/** The keys that follow from the key of a file. */
export function derivedKeys(
  fileKey: Uint8Array,
  salt: Uint8Array,
): { readonly parts: KeyObject; readonly commitment: Buffer } {
  const derived = (purpose: string): Buffer =>
    Buffer.from(hkdfSync("sha256", fileKey, salt, `${FILE_KEY_CONTEXT}/${purpose}`, DATA_KEY_BYTES));
  return { parts: createSecretKey(derived("parts")), commitment: derived("commitment") };
}

export interface FilePart {
  readonly key: KeyObject;
  /** The hash of the head. */
  readonly head: Buffer;
  readonly number: number;
  readonly isLast: boolean;
}

export const hashOfHead = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest();
export const FILE_SALT_BYTES = SALT_BYTES;

export function encryptPart({ key, ...of }: FilePart, plain: Uint8Array): Buffer {
  const cipher = createCipheriv(CIPHER, key, nonceOf(of.number), { authTagLength: PART_TAG_BYTES });
  cipher.setAAD(addressOf(of));
  const body = cipher.update(plain);
  cipher.final();
  return Buffer.concat([body, cipher.getAuthTag()]);
}

/** null: it was changed, or is no such part. */
export function decryptPart({ key, ...of }: FilePart, part: Uint8Array): Buffer | null {
  const end = part.length - PART_TAG_BYTES;
  if (end < 0) return null;
  // Without the fixed length, Node accepts a shortened tag.
  const decipher = createDecipheriv(CIPHER, key, nonceOf(of.number), { authTagLength: PART_TAG_BYTES });
  decipher.setAAD(addressOf(of));
  decipher.setAuthTag(part.subarray(end));
  const plain = decipher.update(part.subarray(0, end));
  try {
    decipher.final();
    return plain;
  } catch {
    return null;
  }
}

function nonceOf(number: number): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeBigUInt64BE(BigInt(number), NONCE_BYTES - 8);
  return nonce;
}

function addressOf({ head, number, isLast }: Omit<FilePart, "key">): Buffer {
  const place = Buffer.alloc(9);
  place.writeBigUInt64BE(BigInt(number));
  place.writeUInt8(isLast ? 1 : 0, 8);
  return Buffer.concat([head, place]);
}
