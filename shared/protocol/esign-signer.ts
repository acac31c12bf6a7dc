/** The people who sign electronically, and their passkeys. */
import { z } from "zod";
import { digestSchema } from "./ids.ts";
import { pageLimit } from "./page-limit.ts";

const NAME_CHARS = 200;
const SUBJECT_CHARS = 255;
const PAGE = 50;

/** The time of the person's own clock, in UTC. */
export const personTimeSchema = z.iso.datetime({ error: "an ISO 8601 time in UTC" });

/** Text that is shown as it was signed, so nothing in it may hide or move other text. */
export const shownText = (max: number) =>
  z
    .string()
    .min(1, "at least one character")
    .max(max)
    .regex(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$/u, "no control characters");

/** A person, for good: providers give the subject to no other person, and a revoked one never signs again. */
export const signerIdSchema = z.strictObject({
  /** The `iss` of the tokens of its identity provider. */
  issuer: shownText(SUBJECT_CHARS),
  /** The `sub` in them. */
  subject: shownText(SUBJECT_CHARS),
});
export type SignerId = z.infer<typeof signerIdSchema>;

export const namedSignerSchema = z.strictObject({ id: signerIdSchema, printed_name: shownText(NAME_CHARS) });

export const passkeySchema = z.looseObject({
  /** SHA-256 of the credential id, hex. */
  passkey_id: z.string(),
  credential_id: z.string(),
  rp_id: z.string(),
  /** That of the enrolment: signatures with the passkey have no other one. */
  printed_name: z.string(),
  enrolled_at: z.string(),
  /** The principal that sent the enrolment. */
  enrolled_by: z.string(),
  /** The entry of the tenant's audit chain that records the enrolment. */
  audit_seq: z.int(),
  last_used_at: z.string(),
  revoked_at: z.string().nullable(),
  revoked_reason: z.string().nullable(),
  /** The entry that records the revocation. */
  revoked_audit_seq: z.int().nullable(),
});
export type PasskeySummary = z.infer<typeof passkeySchema>;

export const signerSchema = z.looseObject({
  issuer: z.string(),
  subject: z.string(),
  /** As in its newest signature. null: it was revoked before it signed. */
  printed_name: z.string().nullable(),
  first_signed_at: z.string().nullable(),
  last_signed_at: z.string().nullable(),
  revoked_at: z.string().nullable(),
  revoked_reason: z.string().nullable(),
  /** Absent: none. */
  passkeys: z.array(passkeySchema).exactOptional(),
});
export type SignerRecord = z.infer<typeof signerSchema>;

export const signersQuerySchema = z.looseObject({
  limit: pageLimit(PAGE, PAGE),
  cursor: z.string().max(1_024).optional(),
});
export const signerPageSchema = z.looseObject({
  signers: z.array(signerSchema),
  cursor: z.string().exactOptional(),
});
export type SignerPage = z.infer<typeof signerPageSchema>;

export const SIGNER_REVOCATIONS = ["left", "lost", "compromised", "other"] as const;
export type SignerRevocation = (typeof SIGNER_REVOCATIONS)[number];

const reason = z.enum(SIGNER_REVOCATIONS, { error: `one of ${SIGNER_REVOCATIONS.join(", ")}` });

export const signerRevokeQuerySchema = z.looseObject({ ...signerIdSchema.shape, reason });
export const revokedSignerSchema = z.looseObject({ signer: signerSchema });
export type RevokedSigner = z.infer<typeof revokedSignerSchema>;

export const passkeyRevokeQuerySchema = z.looseObject({ passkey_id: digestSchema, reason });
export const revokedPasskeySchema = z.looseObject({
  /** With null for what only its record states, if that is lost or damaged. */
  passkey: passkeySchema.extend({
    credential_id: z.string().nullable(),
    rp_id: z.string().nullable(),
    printed_name: z.string().nullable(),
    last_used_at: z.string().nullable(),
  }),
});
export type RevokedPasskey = z.infer<typeof revokedPasskeySchema>;
