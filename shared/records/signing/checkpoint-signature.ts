/** The signature of a checkpoint: that of the commit whose entry made the version. */

import { entryHash } from "../../integrity/chain.ts";
import { judgeEntry } from "../../integrity/commit-signature.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { CheckpointSignature } from "../../protocol/signing-keys.ts";
import type { Reader } from "../../store/store.ts";
import { decode } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { KeyLookup, readSignatures } from "./stored-signatures.ts";

const LOST = { state: "signature_missing", key_id: null, signed_at: null } as const;

/** null: it is unsigned. */
export async function checkpointSignatureOf(
  reader: Reader,
  tenant: string,
  checkpoint: Checkpoint,
): Promise<CheckpointSignature | null> {
  const { checkpoint_id: id, task_id: task, version } = checkpoint.metadata;
  const { event_log_ref: ref, hash } = checkpoint.compliance;
  const seq = Number(ref.slice(ref.lastIndexOf("#") + 1));
  if (!Number.isSafeInteger(seq) || seq < 1) return null;
  const keys = tenantKeys(tenant);
  const [value, [signature]] = await Promise.all([
    reader.get(keys.audit(task, seq)),
    readSignatures(reader, keys, new KeyLookup(reader), { task, from: seq, count: 0 }),
  ]);
  const entry = value === undefined ? null : readText(value);
  // The scrub finds the lost entry.
  if (entry === null) return LOST;
  const { signed_by: signedBy } = entry.facts;
  const problem = judgeEntry({ tenant, task, seq, hash: entryHash(entry.text), signedBy }, signature);
  if (problem === "unsigned") return null;
  const { keyId = null, statement } = signature?.judged ?? {};
  const isNamed = statement?.checkpoints.some(
    (one) => one.id === id && one.version === version && one.hash === hash,
  );
  const state = problem ?? (isNamed ? "valid" : "signature_mismatch");
  return { state, key_id: keyId, signed_at: statement?.at ?? null };
}

function readText(value: Uint8Array): { text: string; facts: { signed_by?: unknown } } | null {
  try {
    const text = decode<string>(value);
    return { text, facts: JSON.parse(text) as { signed_by?: unknown } };
  } catch {
    return null;
  }
}

/** The checkpoint as an answer shows it, with the state of its signature. */
export function withSignature(checkpoint: Checkpoint, signature: CheckpointSignature | null): Checkpoint {
  if (signature === null) return checkpoint;
  return { ...checkpoint, compliance: { ...checkpoint.compliance, signature } };
}
