/** The results of queries that answer checkpoints. */
import type { Checkpoint } from "./checkpoint.ts";
import type { SignaturesBeside } from "./esign.ts";
import type { RemovedCheckpoint } from "./retention.ts";

/** A corrupt checkpoint. It is named, but never returned. */
export interface CorruptCheckpoint {
  /** null: the record that names it is lost. */
  readonly checkpoint_id: string | null;
  readonly version: number | null;
  readonly reason: string;
}

export interface LatestResult extends SignaturesBeside {
  readonly checkpoint: Checkpoint | null;
  /** Newer checkpoints that were skipped because they are corrupt. Empty if the newest is sound. */
  readonly passed_over: readonly CorruptCheckpoint[];
  /** All checkpoints were removed, of which this is the newest. */
  readonly removed?: RemovedCheckpoint;
  /** Versions that the store had lost, or held corrupt, and that were restored from the file mirror for this answer. */
  readonly restored?: readonly CorruptCheckpoint[];
}

export interface CheckpointPage extends SignaturesBeside {
  readonly checkpoints: readonly Checkpoint[];
  /** Corrupt checkpoints that belong on this page. */
  readonly corrupt: readonly CorruptCheckpoint[];
  /** In a history: what is left of the removed checkpoints that belong on this page. */
  readonly removed?: readonly RemovedCheckpoint[];
  /** Absent on the last page. */
  readonly cursor?: string;
}

export interface SearchResult extends CheckpointPage {
  /** The commit position up to which the index is complete. */
  readonly indexed_through: string;
  /** True while the index is being rebuilt: every result is correct, but some may be missing. */
  readonly rebuilding: boolean;
}
