/** The artifacts as services see them: where the bytes are, the rules, and the guard of the disk on which they lie. */
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import { ArtifactFolder } from "../artifacts/folder.ts";
import { storeIdentity } from "../mirror/follower.ts";
import type { ArtifactRules } from "../records/artifacts/artifacts.ts";
import type { Format } from "../records/kv/format.ts";
import type { Clock } from "../runtime/clock.ts";
import { createDiskSpace } from "../runtime/disk-space.ts";
import { requireSpace } from "./disk-full.ts";

export interface ArtifactHolding extends ArtifactRules {
  readonly bytes: ArtifactStore;
  /** Throws UNAVAILABLE while the disk is full. */
  requireRoom(): void;
}

export interface ArtifactSettings {
  readonly artifactsDir?: string | undefined;
  readonly artifactsGrace: number;
  readonly artifactsBytes: number;
  readonly home?: string | undefined;
  readonly diskMinFree?: number | undefined;
}

const OFF = "off";
const FOLDER = "artifacts";
const OWNER_ONLY = 0o700;

/** undefined: they are switched off. */
export function openArtifacts(
  {
    artifactsDir,
    artifactsGrace: graceMs,
    artifactsBytes: totalBytesMax,
    home,
    diskMinFree,
  }: ArtifactSettings,
  format: Format,
  clock: Clock,
): ArtifactHolding | undefined {
  const named = artifactsDir ?? (home === undefined ? OFF : join(home, FOLDER));
  if (named === OFF) return undefined;
  // Another fleet in the same folder would find no record of these bytes and remove them.
  const path = join(resolve(named), storeIdentity(format));
  let disk: ReturnType<typeof createDiskSpace> | undefined;
  return {
    bytes: new ArtifactFolder(path),
    graceMs,
    totalBytesMax,
    requireRoom() {
      mkdirSync(path, { recursive: true, mode: OWNER_ONLY });
      disk ??= createDiskSpace([{ use: "store", path }], { minFreeBytes: diskMinFree, clock });
      requireSpace(disk, "store");
    },
  };
}
