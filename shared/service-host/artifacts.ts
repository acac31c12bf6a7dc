/** The artifacts as services see them: where the bytes are, the rules, and the guard of the disk on which they lie. */
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import { ArtifactBucket } from "../artifacts/bucket.ts";
import { ARTIFACT_KEY_FILE, EncryptedArtifacts } from "../artifacts/encrypted-artifacts.ts";
import { ArtifactFolder } from "../artifacts/folder.ts";
import type { Bus } from "../bus/bus.ts";
import { artifactStream, type StreamSpec } from "../bus/streams/streams.ts";
import { dataKeySource } from "../integrity/encryption/data-key-source.ts";
import { storeIdentity } from "../mirror/follower.ts";
import { ARTIFACT_BUCKET } from "../protocol/object-bucket.ts";
import type { ArtifactRules } from "../records/artifacts/artifacts.ts";
import type { Format } from "../records/kv/format.ts";
import type { Clock } from "../runtime/clock.ts";
import { createDiskSpace } from "../runtime/disk-space.ts";
import { requireSpace } from "./disk-full.ts";
import { ENCRYPTION_KEY } from "./service-settings.ts";

export interface ArtifactHolding extends ArtifactRules {
  readonly bytes: ArtifactStore;
  /** Throws UNAVAILABLE while the disk is full. */
  requireRoom(): void;
}

export interface ArtifactSettings {
  readonly artifactsPlace?: string | undefined;
  readonly artifactsGrace: number;
  readonly artifactsBytes: number;
  readonly home?: string | undefined;
  readonly diskMinFree?: number | undefined;
  readonly encryptionKeys?: readonly string[] | undefined;
}

const OFF = "off";
const BUS = "nats";
const FOLDER = "artifacts";
const OWNER_ONLY = 0o700;

/** The stream of the bucket, if the artifacts are on the bus. */
export function artifactStreams(
  { artifactsPlace, artifactsBytes }: ArtifactSettings,
  limits: { readonly storageBytes?: number; readonly replicas?: number },
): StreamSpec[] {
  return artifactsPlace === BUS ? [artifactStream({ artifactBytes: artifactsBytes, ...limits })] : [];
}

const artifactKey = (path: string, { encryptionKeys }: ArtifactSettings) =>
  dataKeySource({
    sources: encryptionKeys,
    setting: ENCRYPTION_KEY,
    env: process.env,
    file: join(path, ARTIFACT_KEY_FILE),
    context: "artifacts",
  });

/** undefined: they are switched off. */
export function openArtifacts(
  settings: ArtifactSettings,
  { format, bus, clock }: { readonly format: Format; readonly bus: Bus; readonly clock: Clock },
): ArtifactHolding | undefined {
  const { artifactsGrace: graceMs, artifactsBytes: totalBytesMax, home, diskMinFree } = settings;
  const named = settings.artifactsPlace ?? (home === undefined ? OFF : join(home, FOLDER));
  if (named === OFF) return undefined;
  const rules = { graceMs, totalBytesMax };
  if (named === BUS) {
    const bytes = new ArtifactBucket(bus.bucket(ARTIFACT_BUCKET.name), storeIdentity(format));
    // The stream refuses more bytes than it may have.
    return { bytes, ...rules, requireRoom: () => {} };
  }
  // Another fleet in the same folder would find no record of these bytes and remove them.
  const path = join(resolve(named), storeIdentity(format));
  let disk: ReturnType<typeof createDiskSpace> | undefined;
  return {
    bytes: new EncryptedArtifacts(new ArtifactFolder(path), artifactKey(path, settings)),
    ...rules,
    requireRoom() {
      mkdirSync(path, { recursive: true, mode: OWNER_ONLY });
      disk ??= createDiskSpace([{ use: "store", path }], { minFreeBytes: diskMinFree, clock });
      requireSpace(disk, "store");
    },
  };
}
