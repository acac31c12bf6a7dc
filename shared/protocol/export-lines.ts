/**
 * The lines of an export file. Each line is one object in canonical JSON (RFC 8785), so that a checkpoint in it has exactly the bytes
 * that were hashed. EXPORT.md describes the order of the lines.
 */
import { z } from "zod";
import { artifactSizeSchema, partBytesSchema, partSchema } from "./artifacts.ts";
import { esignedSchema, passkeyActsSchema } from "./esign.ts";
import { handoffSchema } from "./handoff-record.ts";
import { checkpointIdSchema, digestSchema, principalSchema, tokenSchema } from "./ids.ts";
import { recordBytesSchema, recordNameSchema } from "./mission-record.ts";
import { envelopeSchema, signingKeySchema } from "./signing-keys.ts";
import { taskSchema } from "./task.ts";

/** A reader refuses files of a newer format. 2: with artifacts. 3: with the records of missions. 4: with electronic signatures. 5: by passkeys. 6: with their acts. */
export const EXPORT_FORMAT = 6;
/** Files of earlier formats lack the records of missions. */
export const RECORDS_FORMAT = 3;
/** Files of earlier formats lack the acts that prove passkeys. */
export const PASSKEY_ACTS_FORMAT = 6;

const time = z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" });
const count = z.int().min(0);

/** The tasks in the file: the named ones, or all that changed at `since` or later. */
export const exportScopeSchema = z.strictObject({
  tasks: z.array(tokenSchema).nullable(),
  since: time.nullable(),
});
export type ExportScope = z.infer<typeof exportScopeSchema>;

/** The first line. */
export const headerLineSchema = z.looseObject({
  kind: z.literal("header"),
  format: z.int().min(1),
  /** The identity of the fleet; null: it announces none. */
  fleet: z.string().max(64).nullable(),
  tenant: tokenSchema,
  /** The person or agent that made the file. */
  by: principalSchema,
  /** The version of Fleet that wrote the file. */
  tool: z.string().max(64),
  exported_at: time,
  scope: exportScopeSchema,
  /** Whether the file has the bytes of the artifacts that its versions reference. Absent: no. */
  artifacts: z.boolean().exactOptional(),
});

/** A task begins. Its trail follows up to the entry `task.audit_seq`, which is the state that the file holds. */
export const taskLineSchema = z.looseObject({
  kind: z.literal("task"),
  task: taskSchema.loose().extend({ task_id: tokenSchema, tenant: tokenSchema }),
  /** Whether the fleet states that all its entries are signed. Absent: no. */
  signatures_required: z.boolean().exactOptional(),
});

/** An entry of the audit trail: the hashed text. */
export const auditLineSchema = z.looseObject({
  kind: z.literal("audit"),
  seq: z.int().min(1),
  entry: z.string(),
  /** DSSE: of the commit that ends with this entry. */
  signature: envelopeSchema.exactOptional(),
  /** With the first signature of a task by this key. */
  signing_key: signingKeySchema.exactOptional(),
  /** The electronic signature that the entry records. */
  esignature: esignedSchema.exactOptional(),
  passkey_acts: passkeyActsSchema.exactOptional(),
  /** The entry is signed, and the reader that answered is of an older version, which answers no signatures. Absent: no. */
  signature_unread: z.literal(true).exactOptional(),
});

/** The version that the audit entry before it made, as it is stored. */
export const checkpointLineSchema = z.looseObject({
  kind: z.literal("checkpoint"),
  hash: digestSchema,
  /** Without its hash, which is that of the canonical bytes of this value. */
  checkpoint: z.looseObject({}),
});

/** The version that the audit entry before it made cannot be read: it is damaged, quarantined or removed. */
export const lostLineSchema = z.looseObject({
  kind: z.literal("lost"),
  checkpoint_id: checkpointIdSchema,
  version: z.int().min(1),
  reason: z.string().max(1_000),
  /** Retention removed it, and this entry of the trail records that. Absent: it is lost. */
  removed_entry: z.int().min(1).exactOptional(),
  /** With `removed_entry`: the checkpoint that is left to fall back to; null: none. Absent before format 3. */
  fallback_id: checkpointIdSchema.nullable().exactOptional(),
});

/** A record of the mission, as it is on disk. The newest entry that states it has the hash of these bytes. */
export const recordLineSchema = z.looseObject({
  kind: z.literal("record"),
  name: recordNameSchema,
  bytes: recordBytesSchema,
});

/** In place of a record: the fleet does not have the bytes that the trail states. */
export const recordLostLineSchema = z.looseObject({
  kind: z.literal("record_lost"),
  name: recordNameSchema,
  reason: z.string().max(1_000),
});

/** A handoff of the task, as it stood when it was read, which may be later than the last audit entry. */
export const handoffLineSchema = z.looseObject({ kind: z.literal("handoff"), handoff: handoffSchema });

/** The task ends. */
export const taskEndLineSchema = z.looseObject({
  kind: z.literal("task_end"),
  task_id: tokenSchema,
  /** The numbers of lines of each kind. */
  entries: count,
  versions: count,
  lost: count,
  /** Absent: none. */
  records: count.exactOptional(),
  records_lost: count.exactOptional(),
  handoffs: count,
  /** SHA-256 of the task's lines before this one, each with its line feed. */
  digest: digestSchema,
});

/** A task whose head is damaged, or whose import has not ended. Nothing else of it is in the file. */
export const unreadableLineSchema = z.looseObject({
  kind: z.literal("unreadable"),
  task_id: tokenSchema,
  reason: z.string().max(1_000),
});

/** An artifact that a version before it references, after the end of the task. Its parts follow, each artifact once in a file. */
export const artifactLineSchema = z.looseObject({
  kind: z.literal("artifact"),
  sha256: digestSchema,
  size: artifactSizeSchema,
});

/** The next part of the artifact. */
export const artifactPartLineSchema = z.looseObject({
  kind: z.literal("artifact_part"),
  part: partSchema,
  bytes: partBytesSchema,
});

/** In place of an artifact, or of the rest of its parts: the fleet could not read it. */
export const artifactLostLineSchema = z.looseObject({
  kind: z.literal("artifact_lost"),
  sha256: digestSchema,
  reason: z.string().max(1_000),
});

/** The last line. A file without it was interrupted. */
export const trailerLineSchema = z.looseObject({
  kind: z.literal("trailer"),
  tasks: count,
  unreadable: count,
  lines: count,
  /** SHA-256 of all lines before this one, each with its line feed. */
  digest: digestSchema,
});

export const exportLineSchema = z.discriminatedUnion("kind", [
  headerLineSchema,
  taskLineSchema,
  auditLineSchema,
  checkpointLineSchema,
  lostLineSchema,
  recordLineSchema,
  recordLostLineSchema,
  handoffLineSchema,
  taskEndLineSchema,
  unreadableLineSchema,
  artifactLineSchema,
  artifactPartLineSchema,
  artifactLostLineSchema,
  trailerLineSchema,
]);

export type ExportLine = z.output<typeof exportLineSchema>;
export type ExportLineOf<Kind extends ExportLine["kind"]> = Extract<ExportLine, { kind: Kind }>;
