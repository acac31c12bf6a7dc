/**
 * The anchors of the audit log: records at places outside the store that a checkpoint of the log existed at a time. A
 * person who holds the store and all keys of the fleet cannot change them.
 */
import { z } from "zod";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";

export const ANCHOR_TARGETS = ["folder", "timestamp", "bucket"] as const;
export type AnchorTarget = (typeof ANCHOR_TARGETS)[number];

const auditAnchorsQuerySchema = z.looseObject({
  /** Absent: all targets. */
  target: z.enum(ANCHOR_TARGETS).optional(),
  /** Only anchors of checkpoints of a smaller size: the next page. */
  before_size: z.int().min(1).optional(),
  /** The page has more if a checkpoint has several anchors. */
  limit: pageLimit(LIMITS.anchors_limit_max, LIMITS.anchors_limit_default),
});

const auditAnchorSchema = z.looseObject({
  target: z.enum(ANCHOR_TARGETS),
  /** The entries of the log that the anchored checkpoint covers. */
  size: z.int(),
  /** When it was anchored: by the clock of the time-stamp authority, else by that of the fleet. */
  at: z.string(),
  /** The signed checkpoint, byte for byte. */
  checkpoint: z.string(),
  /** Of a time-stamp: the response of the authority (RFC 3161), DER in base64. null: of another target. */
  token: z.string().nullable(),
  /** Of a time-stamp: whether it led to a certificate in FLEET_AUDIT_TSA_CA. null: of another target. */
  verified: z.boolean().nullable().exactOptional(),
  /** Of a bucket: the address of the object. null: of another target. */
  object: z.string().nullable(),
  /** Of a bucket: the time before which no one can remove the object. null: of another target. */
  retained_until: z.string().nullable(),
});
export type AuditAnchor = z.infer<typeof auditAnchorSchema>;

export const auditAnchorPageSchema = z.looseObject({
  /** The newest first. */
  anchors: z.array(auditAnchorSchema),
  more: z.boolean(),
});

export const AUDIT_ANCHOR_QUERY_SCHEMAS = { audit_anchors: auditAnchorsQuerySchema } as const;
export const AUDIT_ANCHOR_RESULT_SCHEMAS = { audit_anchors: auditAnchorPageSchema } as const;
export type AuditAnchorPage = z.infer<typeof auditAnchorPageSchema>;
