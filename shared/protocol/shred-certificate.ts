/** The certificate of a shredding: a statement that is signed in the transaction that ends it, and verified without the fleet. */
import { z } from "zod";
import { digestSchema, tokenSchema } from "./ids.ts";
import { envelopeSchema } from "./signing-keys.ts";

export const SHRED_PAYLOAD_TYPE = "application/vnd.fleet.shred.v1+json";

const act = z.looseObject({ by: z.string(), at: z.string(), seq: z.int() });

export const shredStatementSchema = z.looseObject({
  v: z.literal(1),
  tenant: z.string(),
  task: z.string(),
  reason: z.string(),
  case: z.string().nullable(),
  request: act,
  approval: act,
  /** The entry `shred_end` with its hash. At that time no hold and no promise kept the task. */
  end: z.looseObject({ at: z.string(), seq: z.int(), hash: digestSchema }),
  /** The removed checkpoints, in the order of the task: their number, and the SHA-256 of their lines. */
  checkpoints: z.looseObject({ count: z.int(), sha256: digestSchema }),
  /** Their retention classes. */
  policies: z.array(z.string()),
  /** The retention floor of the tenant. */
  floor: z.string(),
  /**
   * The ids of the keys that encrypted the content, in hex, which were destroyed in the store. Backups of before may have them, wrapped. Absent: the rows
   * were not encrypted, or an earlier version has made the certificate.
   */
  keys: z.array(z.string()).exactOptional(),
});
export type ShredStatement = z.infer<typeof shredStatementSchema>;

export const shredCertificateQuerySchema = z.looseObject({ task_id: tokenSchema });

export const shredCertificateSchema = z.looseObject({
  /** The statement in canonical JSON, and its signature. `signatures` is empty if the service has no signing key. */
  envelope: envelopeSchema,
  /** Of the key: DER, in base64. null: unsigned, or its record is lost. */
  public_key: z.string().nullable(),
});
export type ShredCertificate = z.infer<typeof shredCertificateSchema>;

/** What a verifier gets: the certificate, and the lines of the removed checkpoints, which it names by their hash. */
export const shredEvidenceSchema = shredCertificateSchema.extend({
  checkpoints: z.array(
    z.looseObject({ checkpoint_id: z.string(), version: z.int(), hash: digestSchema, seq: z.int() }),
  ),
});
export type ShredEvidence = z.infer<typeof shredEvidenceSchema>;
