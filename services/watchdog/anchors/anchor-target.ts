/** A place outside the store that keeps checkpoints of the audit log. */
import type { AnchorTarget } from "../../../shared/protocol/audit-anchors.ts";
import type { MadeAnchor } from "../../../shared/records/audit-log/anchor-records.ts";

export interface AnchoredCheckpoint {
  readonly tenant: string;
  readonly size: number;
  /** The signed checkpoint. */
  readonly checkpoint: string;
}

export interface AnchorKeeper {
  readonly target: AnchorTarget;
  /** The shortest time between two anchors of one log. */
  readonly everyMs: number;
  /**
   * Makes the anchor, durably, within seconds; throws otherwise. The call may be repeated for the same checkpoint, also at the
   * same time in two processes.
   */
  keep(log: AnchoredCheckpoint, signal: AbortSignal): Promise<MadeAnchor>;
}

/** The clock of a watchdog. */
export type WallClock = () => number;
