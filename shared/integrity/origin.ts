/**
 * Imported versions are sealed again, because their tenant and their audit entry are those of the target. Everything else stays, and
 * `compliance.imported_from` keeps what was replaced, so that anyone can restore the version of the origin and recompute its hash.
 */
import type { UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import { canonicalText, sha256Hex } from "./canonical.ts";

export interface ImportTarget {
  readonly tenant: string;
  /** The audit entry that records the version in the target. */
  readonly eventLogRef: string;
}

/** `hash`: of the version in the origin. */
export function importedFrom(
  checkpoint: UnsealedCheckpoint,
  { fleet, hash }: { readonly fleet: string | null; readonly hash: string },
  { tenant, eventLogRef }: ImportTarget,
): UnsealedCheckpoint {
  const { metadata, compliance } = checkpoint;
  const { event_log_ref, imported_from: earlier } = compliance;
  const origin = { fleet, tenant: metadata.tenant, hash, event_log_ref };
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
  const { tenant, event_log_ref, hash, imported_from: earlier } = origin;
  const kept = earlier !== undefined && { imported_from: earlier as typeof origin };
  return {
    checkpoint: {
      ...checkpoint,
      metadata: { ...checkpoint.metadata, tenant },
      compliance: { ...compliance, event_log_ref, ...kept },
    },
    hash,
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
