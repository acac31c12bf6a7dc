/**
 * The file of a checkpoint: the current version as JSON, with its hash. The stored bytes are the canonical form without the hash (RFC 8785), so
 * the hash is inserted, and nothing is parsed or written in canonical form a second time.
 */
import { canonicalBytes, canonicalText, sha256Hex } from "../integrity/canonical.ts";
import type { Sealed } from "../integrity/seal.ts";
import type { Checkpoint } from "../protocol/checkpoint.ts";
import { withoutSignatures } from "../protocol/esign.ts";
import { parseJsonText } from "../protocol/json.ts";
import { LIMITS } from "../protocol/limits.ts";
import { migrate } from "../protocol/migrations.ts";

/** The hash and the signature make a file a little longer than the bytes that are hashed. */
export const FILE_BYTES_MAX = LIMITS.payload_bytes_max + 4_096;

/** `compliance` is the first member, because no name of the schema is before it in the alphabet. */
const BEGIN = Buffer.from('{"compliance":{');
const MEMBER = '"'.charCodeAt(0);
const NEWLINE = Buffer.from("\n");

/** The bytes must be verified. The buffer of the result holds nothing else, so that it can be moved to another thread. */
export function fileContent({ bytes, hash }: Sealed): Uint8Array {
  if (BEGIN.compare(bytes, 0, BEGIN.length) !== 0 || bytes[BEGIN.length] !== MEMBER)
    return joined(Buffer.from(textWithHash(bytes, hash)), NEWLINE);
  return joined(BEGIN, Buffer.from(`"hash":"${hash}",`), bytes.subarray(BEGIN.length), NEWLINE);
}

/** For a checkpoint with a member of an agent's own before the others. */
function textWithHash(bytes: Uint8Array, hash: string): string {
  const checkpoint = parseJsonText(Buffer.from(bytes).toString("utf8")) as Checkpoint;
  return canonicalText({ ...checkpoint, compliance: { ...checkpoint.compliance, hash } });
}

function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** null: it is no checkpoint, or its hash is not that of its content. Throws UNSUPPORTED_VERSION for a newer schema. */
export function checkpointInFile(content: Buffer): Checkpoint | null {
  const sealed = sealedInFile(content);
  if (sealed === null) return null;
  const checkpoint = parseJsonText(content.toString("utf8")) as Checkpoint;
  return checkpoint.compliance.hash === sealed.hash ? withoutSignatures(migrate(checkpoint)) : null;
}

/** null: it is no JSON, or no checkpoint. The hash is computed from the content; the one that the file states counts for nothing. */
export function sealedInFile(content: Buffer): Sealed | null {
  try {
    const checkpoint = parseJsonText(content.toString("utf8")) as Checkpoint;
    const { hash: _hash, signature: _signature, ...compliance } = checkpoint.compliance;
    const bytes = canonicalBytes({ ...checkpoint, compliance });
    return { bytes, hash: sha256Hex(bytes) };
  } catch {
    return null;
  }
}
