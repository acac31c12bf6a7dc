/** The entries of a LangGraph thread, as they are stored. Any agent of the tenant may have written into the task, so they are validated when read. */
import { z } from "zod";

/** [type, base64 of the bytes], as the serializer made them. */
const valueSchema = z.tuple([z.string(), z.string()]).readonly();
export type StoredValue = z.output<typeof valueSchema>;

const checkpointSchema = z.object({
  kind: z.literal("checkpoint"),
  thread_id: z.string(),
  ns: z.string(),
  id: z.string(),
  parent_id: z.string().nullable(),
  /** Without its channel values. */
  checkpoint: valueSchema,
  /** The channels that changed with this checkpoint, with their versions. */
  values: z.record(z.string(), z.tuple([z.union([z.string(), z.number()]), valueSchema]).readonly()),
  metadata: valueSchema,
});
export type StoredCheckpoint = z.output<typeof checkpointSchema>;

const writesSchema = z.object({
  kind: z.literal("writes"),
  thread_id: z.string(),
  ns: z.string(),
  checkpoint_id: z.string(),
  task_id: z.string(),
  task_path: z.string(),
  writes: z.array(z.object({ idx: z.int(), channel: z.string(), value: valueSchema })),
});
export type StoredWrites = z.output<typeof writesSchema>;

const deletionSchema = z.object({ kind: z.literal("deletion"), thread_id: z.string() });

export const threadEntrySchema = z.discriminatedUnion("kind", [
  checkpointSchema,
  writesSchema,
  deletionSchema,
]);
export type ThreadEntry = z.output<typeof threadEntrySchema>;
