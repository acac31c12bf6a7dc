/**
 * The scrub: a complete re-read of the store in the background, which finds damage before the damaged records
 * are needed.
 */

/** The kind of record that a finding is about. */
export const SCRUB_KINDS = [
  "head",
  "order",
  "place",
  "tombstone",
  "checkpoint",
  "version",
  "link",
  "audit",
  "tenant_audit",
  "access_log",
  "signature",
  "signing_key",
  "esignature",
  "handoff",
  "recovery",
  "command",
  "index",
  "event",
  "mission",
  "artifact",
  "shredding",
  "record",
] as const;
export type ScrubKind = (typeof SCRUB_KINDS)[number];

/** One problem that the scrub found. */
export interface ScrubFinding {
  readonly task_id: string;
  readonly kind: ScrubKind;
  /** The damaged checkpoint and version. null: the damage concerns no single one. */
  readonly checkpoint_id: string | null;
  readonly version: number | null;
  /** Text for operators, equal for every pass that finds the same damage. */
  readonly details: string;
  /** True if the checkpoint was quarantined. Such a finding has an event, any other has an alert. */
  readonly quarantined: boolean;
  readonly found_at: string;
  /** The latest pass that found it. */
  readonly pass: number;
}

/** The records that a pass has verified. */
export interface ScrubTally {
  readonly tasks: number;
  readonly checkpoints: number;
  /** Earlier versions of checkpoints. */
  readonly versions: number;
  readonly audit_entries: number;
  /** Audit entries without a signature. */
  readonly unsigned_entries: number;
  /** The bytes of all keys and values that were read. */
  readonly bytes: number;
  /** Versions that were quarantined before, which are no new findings. */
  readonly quarantined: number;
  readonly findings: number;
}

export interface ScrubPass extends ScrubTally {
  /** The number of the pass, from 1. */
  readonly pass: number;
  readonly began_at: string;
}

export interface EndedScrubPass extends ScrubPass {
  readonly ended_at: string;
}

/** The state of the scrub over all tenants. */
export interface ScrubStatus {
  /** The open pass. null: there is none. */
  readonly current: ScrubPass | null;
  /** The last completed pass. null: there was none. */
  readonly last: EndedScrubPass | null;
  /** A requested pass that has not ended. It starts after the open one. */
  readonly requested_pass: number | null;
  /** The service that scrubs now. null: there is none. */
  readonly by: string | null;
  /** The setting for bytes per second. */
  readonly rate_bytes: number | null;
  /** The setting for the milliseconds between the starts of passes. null: passes start only on request. */
  readonly every_ms: number | null;
  /** The number of records to verify. */
  readonly total: { readonly tasks: number; readonly checkpoints: number };
}

export interface ScrubFindingPage {
  readonly findings: readonly ScrubFinding[];
  /** Absent on the last page. */
  readonly cursor?: string;
}
