/** The refusal of writes while a disk is full. */
import { FleetError } from "../protocol/errors.ts";
import type { DiskSpace, DiskState, DiskUse } from "../runtime/disk-space.ts";

/** An operator must make room, so retries are rare. */
const RETRY_MS = 5_000;

export function diskFull({ uses, freeBytes, minFreeBytes }: DiskState): FleetError {
  return new FleetError("UNAVAILABLE", "the disk is full", {
    details: { disk_of: uses, free_bytes: freeBytes, min_free_bytes: minFreeBytes },
    retryAfterMs: RETRY_MS,
  });
}

/** Throws UNAVAILABLE while the disk of this use is full. */
export function requireSpace(disk: DiskSpace, use: DiskUse): void {
  const full = disk.fullDisk(use);
  if (full !== undefined) throw diskFull(full);
}
