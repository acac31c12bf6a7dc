/**
 * Sealing and opening a checkpoint. The hash covers every byte except itself and the signature. Exactly the
 * hashed bytes are stored, so a read compares the hash first and only then parses.
 */
import { randomFillSync } from "node:crypto";
import type { Checkpoint, UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import { FleetError } from "../protocol/errors.ts";
import { parseJsonText } from "../protocol/json.ts";
import { LIMITS } from "../protocol/limits.ts";
import { canonicalBytes, canonicalText, sha256Hex } from "./canonical.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export interface Sealed {
  /** The canonical bytes without `hash` and `signature`. */
  readonly bytes: Uint8Array;
  readonly hash: string;
}

/**
 * `checkpoint` must consist of data that passed the gate on entry; the writer adds plain text and numbers
 * only. Throws TOO_LARGE over {@link LIMITS.checkpoint_bytes_max} canonical bytes and `allowance`.
 */
export function seal(checkpoint: UnsealedCheckpoint, allowance = 0): Sealed {
  const bytes = encoder.encode(canonicalText(checkpoint));
  if (bytes.length > LIMITS.checkpoint_bytes_max + allowance) {
    throw new FleetError(
      "TOO_LARGE",
      "the checkpoint is too large; keep artifacts elsewhere and refer to them",
      {
        fields: [
          {
            path: "checkpoint",
            expected: `at most ${LIMITS.checkpoint_bytes_max} bytes`,
            got: `${bytes.length} bytes`,
          },
        ],
      },
    );
  }
  return { bytes, hash: sha256Hex(bytes) };
}

const SALT_BYTES = 32;
const SALTS_AT_ONCE = 128;

/**
 * A part of hashed content that makes its hash say nothing: without it the hash of content with few possible values could be guessed, also after that
 * content was removed or shredded, because hashes stay in the trail. It goes with the content.
 */
export type SaltSource = () => string;

/** Fills bytes with random ones. */
export type RandomFill = (bytes: Buffer) => unknown;

/** The random bytes for many salts are asked for at once. */
export function saltsOf(fill: RandomFill): SaltSource {
  const bytes = Buffer.alloc(SALTS_AT_ONCE * SALT_BYTES);
  let used = bytes.length;
  return () => {
    if (used === bytes.length) {
      fill(bytes);
      used = 0;
    }
    used += SALT_BYTES;
    return bytes.toString("hex", used - SALT_BYTES, used);
  };
}

/** From the system, for all that has no source of its own. */
export const newSalt: SaltSource = saltsOf(randomFillSync);

export class CorruptBytes extends Error {
  readonly reason: string;
  constructor(reason: string) {
    super("stored bytes are corrupt");
    this.name = "CorruptBytes";
    this.reason = reason;
  }
}

/** Throws {@link CorruptBytes} unless the bytes have their hash. */
export function verified(sealed: Sealed): Sealed {
  if (sha256Hex(sealed.bytes) !== sealed.hash) throw new CorruptBytes("hash mismatch");
  return sealed;
}

/** Verifies and parses. Throws {@link CorruptBytes}; nothing unverified is ever returned. */
export function open(sealed: Sealed): Checkpoint {
  const checkpoint = parseJsonText(decoder.decode(verified(sealed).bytes)) as Checkpoint;
  checkpoint.compliance.hash = sealed.hash;
  return checkpoint;
}

/** Recomputes the hash of a returned checkpoint, for clients that do not trust the server. */
export function hashOf(checkpoint: Checkpoint): string {
  const { hash: _hash, signature: _signature, ...compliance } = checkpoint.compliance;
  return sha256Hex(canonicalBytes({ ...checkpoint, compliance }));
}
