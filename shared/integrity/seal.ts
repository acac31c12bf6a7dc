/**
 * Sealing and opening a checkpoint. The hash covers every byte but itself and the signature; what is stored are exactly the
 * bytes that were hashed, so reading is: compare the hash, and only then parse.
 */
import type { Checkpoint, UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import { FleetError } from "../protocol/errors.ts";
import { parseJsonText } from "../protocol/json.ts";
import { LIMITS } from "../protocol/limits.ts";
import { canonicalBytes, canonicalText, sha256Hex } from "./canonical.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export interface Sealed {
  /** Canonical bytes without `hash` and `signature`. */
  readonly bytes: Uint8Array;
  readonly hash: string;
}

/**
 * `checkpoint` must be made of data that passed the gate where it came in; what the writer adds is plain text and numbers.
 * Throws TOO_LARGE over {@link LIMITS.checkpoint_bytes_max} canonical bytes and `allowance`.
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

export class CorruptBytes extends Error {
  readonly reason: string;
  constructor(reason: string) {
    super("stored bytes are corrupt");
    this.name = "CorruptBytes";
    this.reason = reason;
  }
}

/** Verifies and parses. Throws {@link CorruptBytes}; nothing unverified is ever returned. */
export function open(sealed: Sealed, signature?: string): Checkpoint {
  if (sha256Hex(sealed.bytes) !== sealed.hash) throw new CorruptBytes("hash mismatch");
  const checkpoint = parseJsonText(decoder.decode(sealed.bytes)) as Checkpoint;
  checkpoint.compliance.hash = sealed.hash;
  if (signature !== undefined) checkpoint.compliance.signature = signature;
  return checkpoint;
}

/** Recomputes the hash of a checkpoint as it was returned, for whoever does not trust the server. */
export function hashOf(checkpoint: Checkpoint): string {
  const { hash: _hash, signature: _signature, ...compliance } = checkpoint.compliance;
  return sha256Hex(canonicalBytes({ ...checkpoint, compliance }));
}
