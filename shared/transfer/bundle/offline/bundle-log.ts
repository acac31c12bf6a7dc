/** The signed checkpoint of the log in a bundle, and its comparison with one that the auditor has kept. */
import { exactBase64, type LogCheckpoint, openCheckpoint } from "../../../integrity/merkle/note.ts";
import { isConsistent } from "../../../integrity/merkle/proofs.ts";
import type { BundleKeys } from "./bundle-keys.ts";
import { type ExactJson, utf8Text } from "./exact-json.ts";
import type { BundleFindings } from "./findings.ts";

const COMMITS = "commits";

/** Those that may sign it: DER, in base64. */
export function logKeys({ all }: BundleKeys): readonly string[] {
  return all.filter(({ purpose }) => purpose === COMMITS).map(({ public_key }) => public_key);
}

/** null: it is not signed with a key of the bundle that may sign it. */
export function openLog(note: Uint8Array, keys: BundleKeys, findings: BundleFindings): LogCheckpoint | null {
  const text = utf8Text(note);
  const signed = text === null ? null : openCheckpoint(text, logKeys(keys));
  if (signed === null) {
    findings.add("log_invalid", "log.note");
    return null;
  }
  const key = keys.all.find(({ public_key }) => public_key === signed.publicKey)!;
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

/** The proof that the log begins with the checkpoint of a size. undefined: the bundle has none. */
type ProofOf = (size: number) => ExactJson | undefined;

/** What is wrong with the log for the holder of an earlier checkpoint. null: the log continues it. */
export function continuationProblem(
  { note, trusted }: KeptLog,
  keys: BundleKeys,
  { log, proofOf }: { readonly log: LogCheckpoint | null; readonly proofOf: ProofOf },
): string | null {
  const named = keys.all.filter(({ key_id }) => trusted === null || trusted.has(key_id));
  const publicKeys = named.map(({ public_key }) => public_key);
  const older = openCheckpoint(note, publicKeys)?.checkpoint;
  if (older === undefined) return "kept_invalid";
  if (log === null) return "kept_unproved";
  if (older.origin !== log.origin) return "kept_other_log";
  if (older.size > log.size) return "log_older";
  const hashes = older.size === log.size || older.size === 0 ? [] : hashesOf(proofOf(older.size));
  if (hashes === null) return "kept_unproved";
  return isConsistent(older, log, hashes) ? null : "log_forked";
}

/** The hashes of a proof. null: it is none. */
export function hashesOf(proof: ExactJson | undefined): readonly Uint8Array[] | null {
  if (!Array.isArray(proof)) return null;
  const hashes = (proof as readonly ExactJson[]).map((one) =>
    typeof one === "string" ? exactBase64(one) : null,
  );
  return hashes.every((hash) => hash !== null) ? hashes : null;
}
