/** The rows of LangGraph's own savers, and what they hold. Other programs wrote them, so they are validated when read. */
import { z } from "zod";

const name = z.string().min(1).max(512);
const namespace = z.string().max(512);
/** SQLite keeps the type that was given. */
const bytes = z.union([z.string(), z.instanceof(Uint8Array)]);
/** An absent parent, also as an empty text. */
const parent = z.union([namespace, z.null()]).transform((id) => (id === "" ? null : id));

export const checkpointRowSchema = z.object({
  thread_id: name,
  checkpoint_ns: namespace,
  checkpoint_id: name,
  parent_checkpoint_id: parent,
  /** null: JSON. */
  type: z.string().nullable(),
  checkpoint: bytes,
  metadata: bytes,
});
export type CheckpointRow = z.output<typeof checkpointRowSchema>;
export const CHECKPOINT_COLUMNS: readonly string[] = Object.keys(checkpointRowSchema.shape);

export const writeRowSchema = z.object({
  thread_id: name,
  checkpoint_ns: namespace,
  checkpoint_id: name,
  task_id: name,
  task_path: z.string(),
  idx: z.int(),
  channel: z.string(),
  type: z.string().nullable(),
  value: bytes,
});
export type WriteRow = z.output<typeof writeRowSchema>;

/** A checkpoint of LangGraph, in JSON. */
export const graphCheckpointSchema = z.looseObject({
  v: z.int().min(1).max(4),
  id: name,
  ts: z.string(),
  channel_values: z.record(z.string(), z.unknown()).exactOptional(),
  channel_versions: z.record(z.string(), z.union([z.string(), z.number()])),
  versions_seen: z.record(z.string(), z.record(z.string(), z.union([z.string(), z.number()]))),
});
export type GraphCheckpointValue = z.output<typeof graphCheckpointSchema>;

export const graphMetadataSchema = z.looseObject({});
