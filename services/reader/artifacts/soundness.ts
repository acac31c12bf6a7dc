/**
 * Whether the stored bytes of an artifact still have its hash. An upload of the same bytes asks first, because it is the chance to replace
 * what is lost or damaged. It reads one part at a time beside the requests, which ask again until it has ended.
 */
import type { ArtifactStore } from "../../../shared/artifacts/artifact-store.ts";
import { contentHash } from "../../../shared/artifacts/content-hash.ts";
import { partsOf } from "../../../shared/protocol/artifacts.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { ArtifactRecord } from "../../../shared/records/artifacts/record.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";

/** How long a result counts while the parts are as they were, so that many uploads of the same bytes read them once. */
const TRUSTED_MS = 10_000;
/** How long a request waits for the end. */
const WAIT_MS = 500;

export interface StoredArtifact {
  readonly tenant: string;
  readonly sha256: string;
  readonly record: ArtifactRecord;
}

/** `now` throws UNAVAILABLE, which a caller repeats, while the bytes are being read. */
export interface Soundness {
  whole(bytes: ArtifactStore, artifact: StoredArtifact): Promise<boolean>;
  now(bytes: ArtifactStore, artifact: StoredArtifact): Promise<boolean>;
  /** Damage was found, so that an upload of the same bytes replaces them at once. */
  forget(tenant: string, upload: string): void;
}

interface Check {
  readonly result: Promise<boolean>;
  /** Of the parts, from before they were read. */
  readonly state: string;
  endedAt: number;
}

export function createSoundness(clock: Clock): Soundness {
  const checks = new Map<string, Check>();

  async function whole(bytes: ArtifactStore, artifact: StoredArtifact): Promise<boolean> {
    const { tenant, record } = artifact;
    for (const [key, { endedAt }] of checks) if (clock.monotonic() - endedAt > TRUSTED_MS) checks.delete(key);
    const { size, upload } = record;
    const state = await bytes.state({ tenant, upload, parts: partsOf(size) });
    const known = checks.get(keyOf(tenant, upload));
    // The parts were changed since, or while they were read.
    return known?.state === state ? known.result : begin(bytes, artifact, state);
  }

  function begin(
    bytes: ArtifactStore,
    { tenant, sha256, record }: StoredArtifact,
    state: string,
  ): Promise<boolean> {
    const key = keyOf(tenant, record.upload);
    const place = { tenant, upload: record.upload, size: record.size };
    const result = contentHash(bytes, place).then((found) => "sha256" in found && found.sha256 === sha256);
    const check: Check = { result, state, endedAt: Number.POSITIVE_INFINITY };
    checks.set(key, check);
    const forget = () => {
      if (checks.get(key) === check) checks.delete(key);
    };
    result.then((isSound) => {
      // Damage is to be replaced at once, and the next look finds the new bytes.
      if (isSound) check.endedAt = clock.monotonic();
      else forget();
    }, forget);
    return result;
  }

  return {
    whole,
    forget: (tenant, upload) => void checks.delete(keyOf(tenant, upload)),
    async now(bytes, artifact) {
      const waiting = new AbortController();
      const late = clock.sleep(WAIT_MS, waiting.signal).then(() => null);
      const result = await Promise.race([whole(bytes, artifact), late]).finally(() => waiting.abort());
      if (result !== null) return result;
      throw new FleetError("UNAVAILABLE", "the bytes of the artifact are being verified", {
        details: { sha256: artifact.sha256 },
        retryAfterMs: WAIT_MS,
      });
    },
  };
}

/** No tenant has a slash. */
const keyOf = (tenant: string, upload: string): string => `${tenant}/${upload}`;
