/** The audit log: its newest checkpoint, and the proofs that it begins with an earlier one and that it has an entry. */
import { z } from "zod";
import { AUDIT_ANCHOR_QUERY_SCHEMAS, AUDIT_ANCHOR_RESULT_SCHEMAS } from "./audit-anchors.ts";
import { digestSchema, tokenSchema } from "./ids.ts";
import { envelopeSchema } from "./signing-keys.ts";

/** Hashes of a Merkle proof, in base64. Trees of all sizes need fewer. */
const proofSchema = z.array(z.string()).max(200);

const auditLogQuerySchema = z.looseObject({
  /** The size of a kept checkpoint: with the proof that the log begins with it. */
  since_size: z.int().min(0).optional(),
  /** That proof is for the log of this size, whose checkpoint the caller has. Absent: for the newest checkpoint. */
  size: z.int().min(1).optional(),
});

const tenantAuditProofQuerySchema = z.looseObject({
  /** The number of the entry. Absent: the newest one that is in the log. */
  seq: z.int().min(1).optional(),
});

const auditProofQuerySchema = z.looseObject({
  task_id: tokenSchema,
  /** The number of the entry. Absent: the newest one that is in the log. */
  seq: z.int().min(1).optional(),
  /** The proof is for the log of this size, whose checkpoint the caller has. Absent: for the newest checkpoint. */
  size: z.int().min(1).optional(),
});

/** Of a bundle with more tasks, the fleet does not compare the ends. Their list would not fit into a message. */
export const EXPORT_ENDS_MAX = 5_000;

/** The fleet seals no comparison with an earlier time: an export of now would have few of the tasks. */
export const EXPORT_AGE_MAX_MS = 24 * 60 * 60 * 1_000;

/** Up to where the export has each task. */
const exportEndsSchema = z.looseObject({
  /** When the export began, at most 24 hours ago. */
  exported_at: z.iso.datetime(),
  /** `tenant`: these are all tasks of the tenant. */
  extent: z.enum(["tenant", "tasks"]),
  /** In the order of the file. */
  tasks: z
    .array(z.looseObject({ task_id: tokenSchema, seq: z.int().min(1), hash: digestSchema }))
    .max(EXPORT_ENDS_MAX),
  /** The tasks that the fleet could not read, in the order of the file. The seal states them with the ends. */
  unreadable: z.array(tokenSchema).max(EXPORT_ENDS_MAX),
});

/** Up to where the export has the access log. */
const accessEndSchema = z.looseObject({
  /** As in `ends`. */
  exported_at: z.iso.datetime(),
  /** The newest block. 0: there is none. */
  seq: z.int().min(0),
  /** Its hash; 64 zeros: there is none. */
  hash: digestSchema,
});

/** The manifest of a bundle of evidence, as it leaves the fleet, or the first line of an export that begins. */
const exportRecordQuerySchema = z.looseObject({
  /** SHA-256 of its bytes. */
  manifest: digestSchema,
  /** The export begins: `manifest` is of its first line, and `tasks` are those that it names (0: all). */
  phase: z.literal("begin").optional(),
  tasks: z.int().min(0),
  entries: z.int().min(0),
  /** Absent: they are not compared with the store. */
  ends: exportEndsSchema.optional(),
  /** Absent: the bundle has no access log. */
  access: accessEndSchema.optional(),
});

/** A receipt: what a third party needs to verify, without the fleet, that the log has an entry. */
export const auditProofSchema = z.looseObject({
  tenant: z.string(),
  /** null: of the chain of the tenant itself. */
  task_id: z.string().nullable(),
  seq: z.int(),
  /** The canonical JSON that was hashed. */
  entry: z.string(),
  /** The number of the entry in the log, from 0. */
  index: z.int(),
  proof: proofSchema,
  checkpoint: z.string(),
  /** Of the key that signed the checkpoint: DER, in base64. */
  public_key: z.string(),
});
export type AuditProof = z.infer<typeof auditProofSchema>;

/** The entry that records an export in the chain of the tenant, which seals the bundle. */
const exportSealSchema = z.looseObject({
  seq: z.int().min(1),
  /** The canonical JSON that was hashed. */
  entry: z.string(),
  /** Of the commit that ends with the entry. null: the service has no signing key. */
  signature: envelopeSchema.nullable(),
});
export type ExportSeal = z.infer<typeof exportSealSchema>;
const auditLogSchema = z.looseObject({
  origin: z.string(),
  size: z.int(),
  /** In base64. */
  root: z.string(),
  /** The C2SP checkpoint of this size. null: the log is empty, or not signed, because the services have no key. */
  checkpoint: z.string().nullable(),
  /** When the log last grew. */
  at: z.string().nullable(),
  /** The age of the tenant's oldest entry that is not in its log; 0: all are. */
  delay_ms: z.number(),
  /** With `since_size`. null: the log is shorter than that, or than `size`. */
  consistency: proofSchema.nullable().exactOptional(),
  /** With `since_size`, and without `size`: the receipts of the newest statements that the store was restored from a backup. */
  restores: z.array(auditProofSchema).exactOptional(),
});
export type AuditLogState = z.infer<typeof auditLogSchema>;

export const AUDIT_LOG_QUERY_SCHEMAS = {
  audit_log: auditLogQuerySchema,
  audit_proof: auditProofQuerySchema,
  tenant_audit_proof: tenantAuditProofQuerySchema,
  ...AUDIT_ANCHOR_QUERY_SCHEMAS,
  export_record: exportRecordQuerySchema,
} as const;

export const AUDIT_LOG_RESULT_SCHEMAS = {
  audit_log: auditLogSchema,
  audit_proof: auditProofSchema,
  tenant_audit_proof: auditProofSchema,
  ...AUDIT_ANCHOR_RESULT_SCHEMAS,
  export_record: exportSealSchema,
} as const;

export type AuditLogQueryResults = {
  readonly [Op in keyof typeof AUDIT_LOG_RESULT_SCHEMAS]: z.infer<(typeof AUDIT_LOG_RESULT_SCHEMAS)[Op]>;
};

/** The name of the log of a tenant in its checkpoints. */
export const logOrigin = (tenant: string): string => `fleet/audit/${tenant}`;
