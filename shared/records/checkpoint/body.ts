/**
 * Checkpoint rows: the sealed bytes of one version, inline or in chunks. A read verifies the hash before it
 * parses the body; a corrupt version is returned as a finding, never as a checkpoint.
 */
import { CorruptBytes, open, type Sealed, verified } from "../../integrity/seal.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import { FleetError } from "../../protocol/errors.ts";
import { withoutSignatures } from "../../protocol/esign.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { migrate } from "../../protocol/migrations.ts";
import type { RemovedCheckpoint } from "../../protocol/retention.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { compressed, decode, decompressed, encode, UnreadableValue } from "../kv/codec.ts";
import type { TenantKeys } from "../kv/keyspace.ts";

/**
 * MessagePack array: version, SHA-256, compressed?, number of chunks (0: inline), bytes or nil, signature or
 * nil.
 */
type Row = [
  version: number,
  hash: Bytes,
  isCompressed: boolean,
  chunks: number,
  inline: Bytes | null,
  signature: string | null,
];

/**
 * The hash covers the body alone, so the other members are checked: a damaged byte there must not reach an
 * answer.
 */
function isRow(value: unknown): value is Row {
  if (!Array.isArray(value) || value.length !== 6) return false;
  const [version, hash, isCompressed, chunks, inline, signature] = value as unknown[];
  return (
    Number.isSafeInteger(version) &&
    hash instanceof Uint8Array &&
    typeof isCompressed === "boolean" &&
    Number.isSafeInteger(chunks) &&
    (inline === null ? Number(chunks) > 0 : inline instanceof Uint8Array && chunks === 0) &&
    (signature === null || typeof signature === "string")
  );
}

export interface Sound {
  readonly sound: true;
  readonly checkpoint: Checkpoint;
  /** Without the migration of an older schema. */
  readonly stored: Checkpoint;
  readonly row: Bytes;
  /** The size of its canonical form. */
  readonly bytes: number;
}

/** A row that was read. */
export type Opened =
  | Sound
  | { readonly sound: false; readonly corrupt: CorruptCheckpoint; readonly removed?: never };

/** A checkpoint that was looked up: retention may have removed it. */
export type Found =
  | Opened
  | { readonly sound: false; readonly removed: RemovedCheckpoint; readonly corrupt?: never };

function chunksOf(bytes: Bytes): Bytes[] {
  const chunks: Bytes[] = [];
  for (let at = 0; at < bytes.length; at += LIMITS.chunk_bytes_max) {
    chunks.push(bytes.subarray(at, at + LIMITS.chunk_bytes_max));
  }
  return chunks;
}

/**
 * Writes the current row of a checkpoint; large bodies go to chunks of their own version, so that versions
 * never share.
 */
export function writeRow(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  id: string,
  version: number,
  sealed: Sealed,
): void {
  const smaller = compressed(sealed.bytes);
  const body = smaller ?? sealed.bytes;
  const chunks = body.length > LIMITS.inline_bytes_max ? chunksOf(body) : [];
  chunks.forEach((chunk, n) => {
    tx.set(keys.chunk(task, id, version, n), chunk);
  });
  const row: Row = [
    version,
    Buffer.from(sealed.hash, "hex"),
    smaller !== null,
    chunks.length,
    chunks.length === 0 ? body : null,
    null,
  ];
  tx.set(keys.checkpoint(task, id), encode(row));
}

async function bodyOf(reader: Reader, keys: TenantKeys, task: string, id: string, row: Row): Promise<Bytes> {
  const [version, , isCompressed, chunks, inline] = row;
  let body = inline;
  if (chunks > 0) {
    const wanted = Array.from({ length: chunks }, (_, n) => keys.chunk(task, id, version, n));
    const parts = await reader.getMany(wanted);
    if (parts.some((part) => part === undefined)) throw new CorruptBytes("a chunk is missing");
    body = Buffer.concat(parts as Bytes[]);
  }
  if (body === null) throw new CorruptBytes("the body is missing");
  if (!isCompressed) return body;
  try {
    return decompressed(body, LIMITS.payload_bytes_max);
  } catch (error) {
    if (error instanceof FleetError) throw error;
    throw new CorruptBytes("the body cannot be decompressed");
  }
}

/**
 * The version and hash that the order entry names: valid bytes of another version are as wrong as corrupt
 * ones.
 */
export interface Expected {
  readonly version: number;
  readonly hash?: string;
}

/** Throws CorruptBytes. `value` undefined: the row is missing although a record refers to it. */
function rowIn(value: Bytes | undefined, expected: Expected | undefined): Row {
  if (value === undefined) throw new CorruptBytes("the row is missing");
  const row = decode<unknown>(value);
  if (!isRow(row)) throw new CorruptBytes("the row cannot be decoded");
  if (expected !== undefined && !isExpected(expected, row[0], hashOf(row)))
    throw new CorruptBytes("the row holds another version");
  return row;
}

function hashOf([, hash]: Row): string {
  return Buffer.from(hash).toString("hex");
}

/** The hash that a row states for its version, which is not verified; null: the row is damaged. */
export function hashInRow(value: Bytes): string | null {
  try {
    return hashOf(rowIn(value, undefined));
  } catch (error) {
    if (corruptionIn(error) === null) throw error;
    return null;
  }
}

/** The version that a row states, which is not verified; null: the row is damaged. */
export function versionInRow(value: Bytes): number | null {
  try {
    return rowIn(value, undefined)[0];
  } catch (error) {
    if (corruptionIn(error) === null) throw error;
    return null;
  }
}

/** Not yet verified. Throws CorruptBytes. */
async function sealedIn(reader: Reader, keys: TenantKeys, task: string, id: string, row: Row) {
  const sealed: Sealed = { bytes: await bodyOf(reader, keys, task, id, row), hash: hashOf(row) };
  // Signatures have rows of their own, so an edit of this row has set this one.
  if (row[5] !== null) throw new CorruptBytes("the row has a signature that cannot be verified");
  return sealed;
}

/**
 * Verifies and opens a row that was already read; `value` undefined: the row is missing although a record
 * refers to it.
 */
export async function openRow(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  id: string,
  value: Bytes | undefined,
  expected?: Expected,
): Promise<Opened> {
  let version = expected?.version ?? null;
  try {
    const row = rowIn(value, expected);
    version = row[0];
    const sealed = await sealedIn(reader, keys, task, id, row);
    const checkpoint = open(sealed);
    // Valid bytes under a wrong key are as wrong as corrupt ones: the row was swapped or rolled back.
    const { metadata } = checkpoint;
    if (metadata.checkpoint_id !== id || metadata.task_id !== task || metadata.version !== version) {
      throw new CorruptBytes("the row holds another checkpoint");
    }
    const bytes = sealed.bytes.length;
    // A writer of an earlier version kept what an agent wrote under the names of signatures.
    const present = withoutSignatures(migrate(checkpoint));
    return { sound: true, checkpoint: present, stored: checkpoint, row: value!, bytes };
  } catch (error) {
    const reason = corruptionIn(error);
    if (reason === null) throw error;
    return { sound: false, corrupt: { checkpoint_id: id, version, reason } };
  }
}

/**
 * The verified bytes of a row, which are not parsed: the hash that the order of the task names stands for their whole content. null: the row is
 * corrupt.
 */
export async function readSealed(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  id: string,
  value: Bytes | undefined,
  expected: Required<Expected>,
): Promise<Sealed | null> {
  try {
    return verified(await sealedIn(reader, keys, task, id, rowIn(value, expected)));
  } catch (error) {
    if (corruptionIn(error) === null) throw error;
    return null;
  }
}

function isExpected(expected: Expected, version: number, hash: string): boolean {
  return version === expected.version && (expected.hash === undefined || hash === expected.hash);
}

/** The corruption that an error reports; null for any other error (an unavailable store, a newer format). */
function corruptionIn(error: unknown): string | null {
  if (error instanceof CorruptBytes) return error.reason;
  if (error instanceof UnreadableValue) return "the row cannot be decoded";
  // A flipped format byte reads as a newer format; a row that this version wrote has one of this version's
  // formats.
  if (error instanceof FleetError && error.details.format !== undefined)
    return "the row's format is not known";
  if (error instanceof TypeError || error instanceof SyntaxError) return "the row cannot be decoded";
  return null;
}
