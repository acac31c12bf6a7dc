/**
 * A task as its files in the mirror have it, for a store that was lost. The trail in the folder proves the files: its hash chain is whole, and it
 * names the hash of the current version of every checkpoint. A file that it does not name is left out, because nothing proves it.
 */
import { canonicalText, sha256Hex } from "../integrity/canonical.ts";
import { createChainVerifier, entryHash } from "../integrity/chain.ts";
import { originOf } from "../integrity/origin.ts";
import type { Sealed } from "../integrity/seal.ts";
import type { UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import { parseJsonText } from "../protocol/json.ts";
import { requireSupported } from "../protocol/migrations.ts";
import type { MirrorFolder } from "./folder.ts";
import type { MirroredTask } from "./place.ts";

/** The end of a trail, and what it states about the task. */
export interface MirroredTrail {
  readonly seq: number;
  readonly hash: string;
  readonly last: string;
  readonly fence: number;
  readonly state: string;
  /** The status of the mission; null: the task is none. */
  readonly mission: string | null;
  /** The hash of the current version of each checkpoint that was not removed, by its id. */
  readonly versions: ReadonlyMap<string, string>;
}

export interface RestorableVersion {
  readonly id: string;
  readonly seq: number;
  /** The hash that the trail names. */
  readonly hash: string;
  /** SHA-256 values of its artifacts, whose records the store lost too. */
  readonly artifacts: readonly string[];
}

export interface RestorableTask {
  readonly trail: MirroredTrail;
  /** In the order of the task. */
  readonly versions: readonly RestorableVersion[];
  readonly lastSuccessfulId: string | null;
  /** The goal of the newest checkpoint; null: it has none. */
  readonly goal: string | null;
  readonly agentType: string | null;
  /** Identifies the trail and the files, so that an interrupted restoration continues with the same ones only. */
  readonly digest: string;
  /** The ids of checkpoints without a file, with a damaged one, or with one that the trail does not name. */
  readonly missing: readonly string[];
  readonly damaged: readonly string[];
}

/** A text: the trail cannot be used, and why. */
export async function readMirroredTrail(lines: AsyncIterable<string>): Promise<MirroredTrail | string> {
  const chain = createChainVerifier();
  const versions = new Map<string, string>();
  let [last, mission]: [string | null, string | null] = [null, null];
  let entry: Readonly<Record<string, unknown>> = {};
  for await (const line of lines) {
    entry = JSON.parse(line) as typeof entry;
    chain.add({ seq: Number(entry.seq), entry: line });
    const { op, checkpoint_id: id, new_hash: hash } = entry;
    if (typeof id === "string" && op === "remove") versions.delete(id);
    else if (typeof id === "string" && typeof hash === "string") versions.set(id, hash);
    // An imported mission has not started here.
    if (op === "mission_start" || (op === "import_records" && typeof entry.mission_status === "string"))
      mission = String(entry.mission_status);
    if (op === "mission_update") mission = String(entry.status_to ?? mission);
    last = line;
  }
  const { seq, problems } = chain.reached();
  if (last === null) return "its audit trail is missing";
  if (problems[0] !== undefined) return `its audit trail is damaged at entry ${problems[0].seq}`;
  const { fence, state_to } = entry;
  return {
    seq,
    hash: entryHash(last),
    last,
    fence: Number(fence),
    state: String(state_to),
    mission,
    versions,
  };
}

/** Reads every file once. Throws UNSUPPORTED_VERSION for a checkpoint of a newer schema. */
export async function readRestorableTask(
  folder: MirrorFolder,
  place: MirroredTask,
  trail: MirroredTrail,
): Promise<RestorableTask> {
  const versions: RestorableVersion[] = [];
  const [missing, damaged]: [string[], string[]] = [[], []];
  const present = new Set(await folder.checkpoints(place));
  let newest: UnsealedCheckpoint | null = null;
  let successful: UnsealedCheckpoint | null = null;
  for (const id of present) if (!trail.versions.has(id)) damaged.push(id);
  for (const [id, hash] of trail.versions) {
    if (!present.has(id)) {
      missing.push(id);
      continue;
    }
    const checkpoint = await readRestorable(folder, place, { id, hash });
    if (checkpoint === null) {
      damaged.push(id);
      continue;
    }
    const { seq, final_status } = checkpoint.metadata;
    const artifacts = (checkpoint.artifacts ?? []).map(({ sha256 }) => sha256);
    versions.push({ id, seq, hash, artifacts });
    if (newest === null || newest.metadata.seq < seq) newest = checkpoint;
    if (final_status === "succeeded" && (successful === null || successful.metadata.seq < seq))
      successful = checkpoint;
  }
  versions.sort((a, b) => a.seq - b.seq);
  const named = versions.map(({ id, hash }) => [id, hash]);
  return {
    trail,
    versions,
    lastSuccessfulId: successful?.metadata.checkpoint_id ?? null,
    goal: newest?.execution_state.goal ?? null,
    agentType: newest?.metadata.agent_type ?? null,
    digest: sha256Hex(canonicalText([trail.hash, named])),
    missing,
    damaged,
  };
}

/**
 * The version as the lost store had it; null: the file does not prove it. A file that the mirror wrote again during an interrupted restoration
 * holds the restored version, which names the lost one as its origin.
 */
export async function readRestorable(
  folder: MirrorFolder,
  place: MirroredTask,
  { id, hash }: Pick<RestorableVersion, "id" | "hash">,
): Promise<UnsealedCheckpoint | null> {
  const sealed = await folder.read(place, id);
  const checkpoint = sealed === null ? null : checkpointIn(sealed, hash);
  if (checkpoint === null || checkpoint.metadata.checkpoint_id !== id) return null;
  requireSupported(checkpoint.schema_version);
  return checkpoint;
}

function checkpointIn({ bytes, hash }: Sealed, wanted: string): UnsealedCheckpoint | null {
  const checkpoint = parseJsonText(Buffer.from(bytes).toString("utf8")) as UnsealedCheckpoint;
  if (hash === wanted) return checkpoint;
  const origin = originOf(checkpoint);
  return origin !== null && origin.hash === wanted && sha256Hex(canonicalText(origin.checkpoint)) === wanted
    ? origin.checkpoint
    : null;
}
