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
/** Of parts that change while they are read. Some places give their files other numbers each time, and an upload must end there too. */
const READINGS_MAX = 3;

/** What it needs of the place. */
type Bytes = Pick<ArtifactStore, "get" | "state">;

export interface StoredArtifact {
  readonly tenant: string;
  readonly sha256: string;
  readonly record: ArtifactRecord;
}

/** `now` throws UNAVAILABLE, which a caller repeats, while the bytes are being read. */
export interface Soundness {
  whole(bytes: Bytes, artifact: StoredArtifact): Promise<boolean>;
  now(bytes: Bytes, artifact: StoredArtifact): Promise<boolean>;
  /** Damage was found, so that an upload of the same bytes replaces them at once. */
  forget(tenant: string, upload: string): void;
}

interface Check {
  readonly result: Promise<boolean>;
  /** Of the parts when it ended. null: it is running, or the place says another thing each time and the result counts by its age alone. */
  state: string | null;
  endedAt: number;
}

export function createSoundness(clock: Clock): Soundness {
  const checks = new Map<string, Check>();
  const looks = new Map<string, Promise<string>>();

  /** The check whose result counts for a request of now. A running one counts: it compares the state of the parts at its end. */
  async function checkOf(bytes: Bytes, artifact: StoredArtifact): Promise<Check> {
    for (const [key, { endedAt }] of checks) if (clock.monotonic() - endedAt > TRUSTED_MS) checks.delete(key);
    const key = keyOf(artifact.tenant, artifact.record.upload);
    const known = checks.get(key);
    if (known === undefined) return begin(bytes, artifact);
    if (known.state === null || (await look(bytes, artifact)) === known.state) return known;
    // Another request may have begun the next one during the look.
    if (checks.get(key) === known) checks.delete(key);
    return checks.get(key) ?? begin(bytes, artifact);
  }

  /** It looks at each part, which takes seconds at a slow place, so requests at the same time share it. */
  function look(bytes: Bytes, { tenant, record }: StoredArtifact): Promise<string> {
    const key = keyOf(tenant, record.upload);
    let state = looks.get(key);
    if (state === undefined) {
      state = stateOf(bytes, tenant, record).finally(() => looks.delete(key));
      looks.set(key, state);
    }
    return state;
  }

  function begin(bytes: Bytes, artifact: StoredArtifact): Check {
    const key = keyOf(artifact.tenant, artifact.record.upload);
    const verified = verify(bytes, artifact);
    const check: Check = {
      result: verified.then(({ isSound }) => isSound),
      state: null,
      endedAt: Number.POSITIVE_INFINITY,
    };
    checks.set(key, check);
    const forget = () => {
      if (checks.get(key) === check) checks.delete(key);
    };
    verified.then(({ isSound, state }) => {
      // Damage is to be replaced at once, and the next look finds the new bytes.
      if (!isSound) return forget();
      check.state = state;
      check.endedAt = clock.monotonic();
    }, forget);
    return check;
  }

  return {
    whole: async (bytes, artifact) => (await checkOf(bytes, artifact)).result,
    forget: (tenant, upload) => void checks.delete(keyOf(tenant, upload)),
    async now(bytes, artifact) {
      // The limit is for the reading, which continues without this request. A look that was given up would begin again with each repetition.
      const check = await checkOf(bytes, artifact);
      const waiting = new AbortController();
      const late = clock.sleep(WAIT_MS, waiting.signal).then(() => null);
      const result = await Promise.race([check.result, late]).finally(() => waiting.abort());
      if (result !== null) return result;
      throw new FleetError("UNAVAILABLE", "the bytes of the artifact are being verified", {
        details: { sha256: artifact.sha256 },
        retryAfterMs: WAIT_MS,
      });
    },
  };
}

/**
 * Reads all parts, and again if they were changed meanwhile: the first reading encrypts plain ones, and what another program changed behind it
 * would count as verified. The state is that of the parts as they were read.
 */
async function verify(
  bytes: Bytes,
  { tenant, sha256, record }: StoredArtifact,
): Promise<{ readonly isSound: boolean; readonly state: string | null }> {
  let state = await stateOf(bytes, tenant, record);
  for (let readings = 1; ; readings += 1) {
    const { upload, size } = record;
    const found = await contentHash(bytes, { tenant, upload, size });
    if (!("sha256" in found) || found.sha256 !== sha256) return { isSound: false, state: null };
    const after = await stateOf(bytes, tenant, record);
    if (after === state) return { isSound: true, state };
    if (readings === READINGS_MAX) return { isSound: true, state: null };
    state = after;
  }
}

const stateOf = (bytes: Bytes, tenant: string, { upload, size }: ArtifactRecord): Promise<string> =>
  bytes.state({ tenant, upload, parts: partsOf(size) });

/** No tenant has a slash. */
const keyOf = (tenant: string, upload: string): string => `${tenant}/${upload}`;
