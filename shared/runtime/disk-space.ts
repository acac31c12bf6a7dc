/**
 * The free space of the disks on which a service stores data. Services refuse work before the disk is really full, because a store and
 * a bus that fail in the middle of a write fail in worse ways. The rest is a reserve: for alerts, leases, recoveries and the
 * outbox.
 *
 * A disk is `full` below the reserve and `low` below twice the reserve. It leaves a level only with a quarter more, so that a size around
 * a limit is not reported again and again.
 */
import { statfsSync, statSync } from "node:fs";
import type { Clock } from "./clock.ts";
import type { Health } from "./observability/ops-server.ts";

/** What a service stores on a disk: the records of its store, or the streams of its own bus. */
export type DiskUse = "store" | "bus";
export type DiskLevel = "ok" | "low" | "full";

export interface DiskPlace {
  readonly use: DiskUse;
  /** A folder, which exists. */
  readonly path: string;
}

export interface DiskState {
  /** More than one for places on the same disk. */
  readonly uses: readonly DiskUse[];
  readonly path: string;
  readonly freeBytes: number;
  readonly totalBytes: number;
  /** The reserve. 0: the disk is not guarded. */
  readonly minFreeBytes: number;
  readonly level: DiskLevel;
}

export interface DiskSpace {
  /** A state is at most 100 ms old. Empty if no disk of this machine is used. */
  disks(): readonly DiskState[];
  /** The disk of this use, if it is full. */
  fullDisk(use: DiskUse): DiskState | undefined;
  /** True if even the reserve of the disk is used, so nothing at all should be written. */
  isExhausted(use: DiskUse): boolean;
  /** Fails while a disk is full. */
  readonly check: () => Promise<Health>;
}

const MIB = 1024 * 1024;
/** On a small disk the reserve is a part of it. */
const RESERVE = { bytes: 128 * MIB, part: 0.1 };
/** As fresh as a command needs it, without a system call for each. */
const FRESH_MS = 100;
const EXHAUSTED_BYTES = 4 * MIB;
const LOW = 2;
const RELIEF = 1.25;

/** @param minFreeBytes the reserve; undefined: 128 MiB, or a tenth of a smaller disk; 0: no disk is guarded */
export function createDiskSpace(
  places: readonly DiskPlace[],
  { minFreeBytes, clock }: { readonly minFreeBytes?: number | undefined; readonly clock: Clock },
): DiskSpace {
  const guarded = [...byDevice(places).values()].map((same) => createDisk(same, minFreeBytes));
  let measuredAt = Number.NEGATIVE_INFINITY;
  let states: DiskState[] = [];
  const disks = (): readonly DiskState[] => {
    const now = clock.monotonic();
    if (now - measuredAt >= FRESH_MS) {
      measuredAt = now;
      states = guarded.map((measure) => measure()).filter((state) => state !== undefined);
    }
    return states;
  };
  return {
    disks,
    fullDisk: (use) => disks().find(({ level, uses }) => level === "full" && uses.includes(use)),
    isExhausted: (use) =>
      disks().some(({ uses, freeBytes }) => uses.includes(use) && freeBytes < EXHAUSTED_BYTES),
    check: async () => ({
      ok: disks().every(({ level }) => level !== "full"),
      detail: disks().map(diskText).join("; "),
    }),
  };
}

/** Low or full, without the memory of its level. */
export function isDiskLow({
  freeBytes,
  minFreeBytes,
}: Pick<DiskState, "freeBytes" | "minFreeBytes">): boolean {
  return freeBytes < LOW * minFreeBytes;
}

/** No longer low: between this and {@link isDiskLow} the level depends on its past. */
export function isDiskRelieved({
  freeBytes,
  minFreeBytes,
}: Pick<DiskState, "freeBytes" | "minFreeBytes">): boolean {
  return freeBytes >= LOW * RELIEF * minFreeBytes;
}

/** "store, bus: 97.2 MiB free of 20480.0 MiB, full" */
function diskText({ uses, freeBytes, totalBytes, level }: DiskState): string {
  const mib = (bytes: number) => `${(bytes / MIB).toFixed(1)} MiB`;
  return `${uses.join(", ")}: ${mib(freeBytes)} free of ${mib(totalBytes)}${level === "ok" ? "" : `, ${level}`}`;
}

function byDevice(places: readonly DiskPlace[]): Map<number, DiskPlace[]> {
  const devices = new Map<number, DiskPlace[]>();
  for (const place of places) {
    const { dev } = statSync(place.path);
    devices.set(dev, [...(devices.get(dev) ?? []), place]);
  }
  return devices;
}

function createDisk(places: readonly DiskPlace[], given: number | undefined): () => DiskState | undefined {
  const { path } = places[0]!;
  const uses = places.map(({ use }) => use);
  let level: DiskLevel = "ok";
  return () => {
    try {
      const { bavail, blocks, bsize } = statfsSync(path);
      const [freeBytes, totalBytes] = [bavail * bsize, blocks * bsize];
      const minFreeBytes = given ?? Math.min(RESERVE.bytes, Math.floor(totalBytes * RESERVE.part));
      level = nextLevel(level, freeBytes, minFreeBytes);
      return { uses, path, freeBytes, totalBytes, minFreeBytes, level };
    } catch {
      return undefined; // removed or unmounted: the store itself reports that
    }
  };
}

export function nextLevel(before: DiskLevel, free: number, min: number): DiskLevel {
  const relief = (level: DiskLevel): number => (before === level ? RELIEF : 1);
  if (free < min * relief("full")) return "full";
  return free < LOW * min * (before === "ok" ? 1 : RELIEF) ? "low" : "ok";
}
