/**
 * Verifies the links between a forked task and its source. Both trails record the fork in one transaction, so
 * each side must name the other, and the checkpoint that the fork copied.
 */
import type { AuditEntry } from "../../../lifecycle/replay.ts";
import type { Checkpoint } from "../../../protocol/checkpoint.ts";
import { isCheckpointId, isToken } from "../../../protocol/ids.ts";
import type { TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "./entries.ts";

/** A fork as one side records it. */
interface Link {
  /** The checkpoint about which this side's finding is. */
  readonly about: string;
  readonly other: { readonly task: string; readonly entry: number };
  /** The members that the entry of the other side must have. */
  readonly expected: Readonly<Record<string, unknown>>;
}

/** Verifies the entries of forks, both those of a source and the first one of a forked task. */
export async function verifyForks(
  scrub: TaskScrub,
  entries: readonly (AuditEntry | undefined)[],
): Promise<void> {
  for (const entry of entries) {
    const link = entry === undefined ? null : (toFork(scrub, entry) ?? toSource(scrub, entry));
    if (link !== null) await verifyLink(scrub, link);
  }
}

/** Verifies that the origin which a checkpoint names is the one that the trail of the source records. */
export async function verifyOrigin(scrub: TaskScrub, { metadata }: Checkpoint): Promise<void> {
  const { forked_from: from, checkpoint_id } = metadata;
  if (from === undefined || (await isImported(scrub))) return;
  await verifyLink(scrub, {
    about: checkpoint_id,
    other: { task: from.task_id, entry: from.entry },
    expected: {
      op: "fork",
      checkpoint_id: from.checkpoint_id,
      version: from.version,
      source_hash: from.hash,
      fork_task: scrub.task,
      fork_checkpoint: checkpoint_id,
    },
  });
}

/** The trail of the fork, and that of its source at this time, are in the fleet of origin. */
async function isImported({ reader, keys, task }: TaskScrub): Promise<boolean> {
  return readEntry(await reader.get(keys.audit(task, 1)))?.facts?.op === "import_begin";
}

function toFork({ task }: TaskScrub, entry: AuditEntry): Link | null {
  const { op, checkpoint_id: id, fork_task: fork } = entry;
  if (op !== "fork" || typeof fork !== "string" || !isToken(fork) || !isId(id)) return null;
  return {
    about: id,
    other: { task: fork, entry: 1 },
    expected: {
      op: "create",
      command_id: entry.command_id,
      checkpoint_id: entry.fork_checkpoint,
      source_task: task,
      source_checkpoint: id,
      source_version: entry.version,
      source_hash: entry.source_hash,
      source_entry: entry.seq,
    },
  };
}

function toSource({ task }: TaskScrub, entry: AuditEntry): Link | null {
  const { op, checkpoint_id: id, source_task: source, source_entry: at } = entry;
  if (op !== "create" || typeof source !== "string" || !isToken(source) || !isId(id)) return null;
  return {
    about: id,
    other: { task: source, entry: Number(at) },
    expected: {
      op: "fork",
      command_id: entry.command_id,
      checkpoint_id: entry.source_checkpoint,
      version: entry.source_version,
      source_hash: entry.source_hash,
      fork_task: task,
      fork_checkpoint: id,
    },
  };
}

const isId = (id: unknown): id is string => typeof id === "string" && isCheckpointId(id);

async function verifyLink(scrub: TaskScrub, { about, other, expected }: Link): Promise<void> {
  const { reader, keys } = scrub;
  const value = Number.isSafeInteger(other.entry)
    ? await reader.get(keys.audit(other.task, other.entry))
    : undefined;
  const entry = readEntry(value);
  // A damaged entry is found with its own trail.
  if (value !== undefined && entry?.facts === undefined) return;
  const stated = new Map(Object.entries(entry?.facts ?? {}));
  if (Object.entries(expected).every(([name, wanted]) => stated.get(name) === wanted)) return;
  const details = `entry ${other.entry} of task ${other.task} does not record this fork`;
  scrub.note({ kind: "link", checkpoint_id: about, version: null, details });
}
