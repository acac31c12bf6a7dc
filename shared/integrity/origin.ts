/**
 * Imported versions are sealed again, because their tenant and their audit entry are those of the target. Everything else stays, and
 * `compliance.imported_from` keeps what was replaced, so that anyone can restore the version of the origin and recompute its hash.
 */
import type { ReplacedValues, UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import { canonicalText, sha256Hex } from "./canonical.ts";

export interface ImportTarget {
  readonly tenant: string;
  /** The audit entry that records the version in the target. */
  readonly eventLogRef: string;
}

export interface ImportSource {
  readonly fleet: string | null;
  /** Of the version in the origin. */
  readonly hash: string;
  /** The values of the origin that the given checkpoint has no more ({@link nextOf}). */
  readonly replaced?: ReplacedValues;
}

/** `checkpoint` has the values of the origin, but for `replaced`. */
export function importedFrom(
  checkpoint: UnsealedCheckpoint,
  { fleet, hash, replaced }: ImportSource,
  { tenant, eventLogRef }: ImportTarget,
): UnsealedCheckpoint {
  const { metadata, compliance } = checkpoint;
  const { event_log_ref, imported_from: earlier } = compliance;
  const origin = { fleet, tenant: metadata.tenant, hash, event_log_ref, ...(replaced && { replaced }) };
  return {
    ...checkpoint,
    metadata: { ...metadata, tenant },
    compliance: {
      ...compliance,
      event_log_ref: eventLogRef,
      imported_from: earlier === undefined ? origin : { ...origin, imported_from: earlier },
    },
  };
}

/** The version of the origin without its hash, and the hash that it had there; null: the version was not imported. */
export function originOf(
  checkpoint: UnsealedCheckpoint,
): { readonly checkpoint: UnsealedCheckpoint; readonly hash: string } | null {
  const { imported_from: origin, ...compliance } = withoutSeal(checkpoint.compliance);
  if (origin === undefined) return null;
  const { tenant, event_log_ref, hash, imported_from: earlier, replaced } = origin;
  const { last_successful_state, ...place } = replaced ?? {};
  const { recovery } = checkpoint;
  const state = last_successful_state !== undefined && { recovery: { ...recovery, last_successful_state } };
  const kept = earlier !== undefined && { imported_from: earlier as typeof origin };
  return {
    checkpoint: {
      ...checkpoint,
      metadata: { ...checkpoint.metadata, ...place, tenant },
      ...state,
      compliance: { ...compliance, event_log_ref, ...kept },
    },
    hash,
  };
}

/**
 * A version whose earlier versions and neighbours are lost, as the first version of the checkpoint at a position of its new task. References to
 * checkpoints that the task does not have are left out.
 */
export function nextOf(
  checkpoint: UnsealedCheckpoint,
  place: number,
  isKnown: (id: string) => boolean,
): { readonly checkpoint: UnsealedCheckpoint; readonly replaced: ReplacedValues } {
  const { metadata, recovery } = checkpoint;
  const { seq, version, parent_ids } = metadata;
  const { last_successful_state: state, ...rest } = recovery;
  const isLost = state !== undefined && !isKnown(state);
  return {
    checkpoint: {
      ...checkpoint,
      metadata: { ...metadata, seq: place, version: 1, parent_ids: parent_ids.filter(isKnown) },
      recovery: isLost ? rest : recovery,
    },
    replaced: { seq, version, parent_ids, ...(isLost && { last_successful_state: state }) },
  };
}

/** Whether a version that says where it was imported from restores the version with the hash that it names. */
export function restoresOrigin(checkpoint: UnsealedCheckpoint): boolean {
  const origin = originOf(checkpoint);
  return origin === null || sha256Hex(canonicalText(origin.checkpoint)) === origin.hash;
}

function withoutSeal(compliance: UnsealedCheckpoint["compliance"]): UnsealedCheckpoint["compliance"] {
  const { hash: _hash, signature: _signature, ...rest } = compliance;
  return rest;
}
