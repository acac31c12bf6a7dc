/** The scrub: everything that is stored, read again in the background, so that damage is found before somebody needs what it hit. */

/** What a finding is about: where the damage is, not how it came about. */
export const SCRUB_KINDS = [
  "head",
  "order",
  "place",
  "checkpoint",
  "version",
  "link",
  "audit",
  "handoff",
  "recovery",
  "record",
] as const;
export type ScrubKind = (typeof SCRUB_KINDS)[number];

/** Something that did not verify. */
export interface ScrubFinding {
  readonly task_id: string;
  readonly kind: ScrubKind;
  /** What it is about; null: no single checkpoint, or no single version of it. */
  readonly checkpoint_id: string | null;
  readonly version: number | null;
  /** For people; the same each time that the same damage is met. */
  readonly details: string;
  /** Whether the checkpoint was quarantined for it; such a finding has an event, others have an alert. */
  readonly quarantined: boolean;
  readonly found_at: string;
  /** The latest pass that met it. */
  readonly pass: number;
}

/** What a pass has verified. */
export interface ScrubTally {
  readonly tasks: number;
  readonly checkpoints: number;
  /** Earlier versions of checkpoints. */
  readonly versions: number;
  readonly audit_entries: number;
  /** Of keys and values that were read. */
  readonly bytes: number;
  /** Versions that had been quarantined before: known, and not found again. */
  readonly quarantined: number;
  readonly findings: number;
}

export interface ScrubPass extends ScrubTally {
  /** Passes are counted from 1. */
  readonly pass: number;
  readonly began_at: string;
}

export interface EndedScrubPass extends ScrubPass {
  readonly ended_at: string;
}

/** Over all tenants. */
export interface ScrubStatus {
  /** The pass that is under way; null: none is. */
  readonly current: ScrubPass | null;
  /** The last one that was completed; null: none ever was. */
  readonly last: EndedScrubPass | null;
  /** The pass that was asked for and has not ended; it begins behind the one that is under way. */
  readonly requested_pass: number | null;
  /** The service that scrubs now; null: none does. */
  readonly by: string | null;
  /** As it was told: bytes per second, and milliseconds between the beginnings of passes (null: only when asked). */
  readonly rate_bytes: number | null;
  readonly every_ms: number | null;
  /** What there is to verify. */
  readonly total: { readonly tasks: number; readonly checkpoints: number };
}

export interface ScrubFindingPage {
  readonly findings: readonly ScrubFinding[];
  /** Absent on the last page. */
  readonly cursor?: string;
}
