/** The signature of a checkpoint: that of the commit whose entry made the version. */

import { entryHash } from "../../integrity/chain.ts";
import { judgeEntry } from "../../integrity/commit-signature.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { CheckpointSignature } from "../../protocol/signing-keys.ts";
import type { Reader } from "../../store/store.ts";
import { trailPlace } from "../audit/trail-place.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { readEntry } from "../scrub/trail/entries.ts";
import { areSignaturesRequired } from "./key-record.ts";
import { KeyLookup, readSignatures } from "./stored-signatures.ts";

const LOST = { state: "signature_missing", key_id: null, signed_at: null } as const;

/** The checkpoint as an answer shows it, with the state of its signature. */
export async function withSignature(
  reader: Reader,
  tenant: string,
  checkpoint: Checkpoint,
): Promise<Checkpoint> {
  const signature = await signatureOf(reader, tenant, checkpoint);
  if (signature === null) return checkpoint;
  return { ...checkpoint, compliance: { ...checkpoint.compliance, signature } };
}

/** null: it is unsigned, and may be so. */
async function signatureOf(
  reader: Reader,
  tenant: string,
  checkpoint: Checkpoint,
): Promise<CheckpointSignature | null> {
  const { checkpoint_id: id, task_id: task, version } = checkpoint.metadata;
  const { event_log_ref: ref, hash } = checkpoint.compliance;
  const seq = trailPlace(ref, tenant, task);
  if (seq === null) return (await areSignaturesRequired(reader)) ? LOST : null;
  const keys = tenantKeys(tenant);
  const [[value, previous], [signature], isRequired] = await Promise.all([
    reader.getMany([keys.audit(task, seq), keys.audit(task, seq - 1)]),
    readSignatures(reader, keys, new KeyLookup(reader), { task, from: seq, count: 0 }),
    areSignaturesRequired(reader),
  ]);
  const { text, facts } = readEntry(value) ?? {};
  // The scrub finds the lost entry.
  if (text === undefined || facts === undefined) return LOST;
  const before = readEntry(previous)?.facts?.at;
  const problem = judgeEntry(
    { tenant, task, seq, hash: entryHash(text), facts, before },
    signature,
    isRequired,
  );
  if (problem === "unsigned") return null;
  const { keyId = null, verified = null } = signature?.judged ?? {};
  const isNamed = verified?.statement.checkpoints.some(
    (one) => one.id === id && one.version === version && one.hash === hash,
  );
  const state = problem ?? (isNamed ? "valid" : "signature_mismatch");
  return { state, key_id: keyId, signed_at: verified?.statement.at ?? null };
}
