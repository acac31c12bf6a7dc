/** The signed checkpoint of the log in a bundle, and its comparison with one that the auditor has kept. */
import { exactBase64, type LogCheckpoint, openCheckpoint } from "../../../integrity/merkle/note.ts";
import { isConsistent } from "../../../integrity/merkle/proofs.ts";
import type { BundleKeys } from "./bundle-keys.ts";
import { type ExactJson, type ExactObject, utf8Text } from "./exact-json.ts";
import type { BundleFindings } from "./findings.ts";

const COMMITS = "commits";

/** null: it is not signed with a key of the bundle that may sign it. */
export function openLog(note: Uint8Array, keys: BundleKeys, findings: BundleFindings): LogCheckpoint | null {
  const text = utf8Text(note);
  const named = keys.all.filter(({ purpose }) => purpose === COMMITS);
  const publicKeys = named.map(({ public_key }) => public_key);
  const signed = text === null ? null : openCheckpoint(text, publicKeys);
  if (signed === null) {
    findings.add("log_invalid", "log.note");
    return null;
  }
  const key = named.find(({ public_key }) => public_key === signed.publicKey)!;
  keys.used.add(key.key_id);
  // A thief of a revoked key can sign a log of their own, at any time.
  if (keys.isRevoked(key.key_id)) findings.add("log_key_revoked", "log.note");
  return signed.checkpoint;
}

export interface KeptLog {
  /** The text of the checkpoint that the auditor has kept. */
  readonly note: string;
  /** Null: the auditor names no keys. */
  readonly trusted: ReadonlySet<string> | null;
}

/** What is wrong with the log for the holder of an earlier checkpoint. null: the log continues it. */
export function continuationProblem(
  { note, trusted }: KeptLog,
  keys: BundleKeys,
  { log, proof }: { readonly log: LogCheckpoint | null; readonly proof: ExactObject | null },
): string | null {
  const named = keys.all.filter(({ key_id }) => trusted === null || trusted.has(key_id));
  const publicKeys = named.map(({ public_key }) => public_key);
  const older = openCheckpoint(note, publicKeys)?.checkpoint;
  if (older === undefined) return "kept_invalid";
  if (log === null) return "kept_unproved";
  if (older.origin !== log.origin) return "kept_other_log";
  if (older.size > log.size) return "log_older";
  const hashes = older.size === log.size || older.size === 0 ? [] : hashesIn(proof, older.size);
  if (hashes === null) return "kept_unproved";
  return isConsistent(older, log, hashes) ? null : "log_forked";
}

function hashesIn(proof: ExactObject | null, size: number): readonly Uint8Array[] | null {
  if (proof === null || proof.size !== size || !Array.isArray(proof.proof)) return null;
  const hashes = (proof.proof as readonly ExactJson[]).map((one) =>
    typeof one === "string" ? exactBase64(one) : null,
  );
  return hashes.every((hash) => hash !== null) ? hashes : null;
}
