/**
 * Electronic signatures of people (21 CFR Part 11). A person signs one version of a checkpoint: the statement says which, by whom and with
 * which meaning. The proof is a token of the identity provider of the person, or a signature of a passkey of the person, over exactly these bytes, so
 * neither an agent nor an operator of the fleet can make one.
 */
import { z } from "zod";
import { ERROR_CODES } from "./errors.ts";
import { ESIGN_METHODS, esignProofSchema, sentProofSchema } from "./esign-proof.ts";
import {
  namedSignerSchema,
  passkeyRevokeQuerySchema,
  personTimeSchema,
  type RevokedPasskey,
  type RevokedSigner,
  revokedPasskeySchema,
  revokedSignerSchema,
  type SignerPage,
  shownText,
  signerPageSchema,
  signerRevokeQuerySchema,
  signersQuerySchema,
} from "./esign-signer.ts";
import { checkpointIdSchema, commandIdSchema, digestSchema, tokenSchema } from "./ids.ts";
import { pageLimit } from "./page-limit.ts";
import { envelopeSchema } from "./signing-keys.ts";

export const ESIGN_PAYLOAD_TYPE = "application/vnd.fleet.esign.v1+json";

/** What the signature means. 21 CFR 11.50(a)(3). */
export const ESIGN_MEANINGS = ["review", "approval", "responsibility", "authorship"] as const;
export type EsignMeaning = (typeof ESIGN_MEANINGS)[number];

export const esignMeaningSchema = z.enum(ESIGN_MEANINGS, { error: `one of ${ESIGN_MEANINGS.join(", ")}` });

const STATEMENT_CHARS = 8_192;
const REASON_CHARS = 1_000;
const PAGE = 50;

/** What is signed. */
export const esignSubjectSchema = z.strictObject({
  tenant: tokenSchema,
  task: tokenSchema,
  checkpoint_id: checkpointIdSchema,
  version: z.int().min(1),
  hash: digestSchema,
  /** The newest audit entry of the task that the person saw. */
  head: z.strictObject({ seq: z.int().min(1), hash: digestSchema }),
});
export type EsignSubject = z.infer<typeof esignSubjectSchema>;

/** What a person signs. The bytes are its canonical JSON (RFC 8785). */
export const esignStatementSchema = z.strictObject({
  v: z.literal(1),
  subject: esignSubjectSchema,
  signer: namedSignerSchema,
  meaning: esignMeaningSchema,
  signed_at: personTimeSchema,
  /** The zone in which the time was shown: a name of the IANA database, or an offset such as +02:00. */
  zone: z
    .string()
    .regex(/^(?:[A-Za-z0-9_+-]{1,32}(?:\/[A-Za-z0-9_+-]{1,32}){0,2}|[+-]\d\d:\d\d)$/, "a time zone"),
  reason: shownText(REASON_CHARS).exactOptional(),
  /** SHA-256 of the rules of the fleet for this issuer, as `signing_request` answers it. */
  policy: digestSchema,
});
export type EsignStatement = z.infer<typeof esignStatementSchema>;

/** A signature as it is stored. */
export const esignedSchema = z.looseObject({
  payload_type: z.string(),
  /** The signed statement, in base64. */
  payload: z.string(),
  proof: esignProofSchema,
});
export type Esigned = z.infer<typeof esignedSchema>;

/** What can be wrong with a stored signature. */
export const ESIGN_PROBLEMS = {
  statement_invalid: "its statement cannot be read",
  proof_invalid: "the token, or the passkey, does not verify with its key",
  proof_mismatch: "the proof is for another statement or person",
  moved: "it is that of another version, task or tenant",
  content_changed: "the version is lost, or has another hash than the signed one",
  not_recorded: "the audit trail does not record it",
  passkey_unrecorded: "the audit chain of the tenant does not record its passkey",
  passkey_unproved: "the file is too old to prove its passkey",
  passkey_revoked: "its passkey was revoked before",
} as const;
export type EsignProblem = keyof typeof ESIGN_PROBLEMS;

export const ESIGN_STATES = ["valid", ...(Object.keys(ESIGN_PROBLEMS) as EsignProblem[])] as const;
export type EsignState = (typeof ESIGN_STATES)[number];

/** What every display shows. 21 CFR 11.50: printed name, time with zone, meaning. */
export const esignBlockSchema = z.looseObject({
  state: z.enum(ESIGN_STATES),
  /** null: the statement cannot be read. */
  printed_name: z.string().nullable(),
  signed_at: z.string().nullable(),
  zone: z.string().nullable(),
  meaning: z.string().nullable(),
  reason: z.string().exactOptional(),
  signer: z.looseObject({ issuer: z.string(), subject: z.string() }).nullable(),
  /** How the person proved it: a login (`oidc`), or a passkey (`webauthn`). */
  method: z.enum(ESIGN_METHODS).nullable(),
  checkpoint_id: z.string(),
  version: z.int(),
  /** The newest version of the checkpoint: a higher one has superseded the signed one. Absent: it is not known. */
  newest_version: z.int().exactOptional(),
  /** The audit entry that records it. */
  audit_seq: z.int(),
});
export type EsignBlock = z.infer<typeof esignBlockSchema>;

/** Beside checkpoints in an answer: the signatures of all their versions, in the order of their audit entries. They are no part of what is hashed. */
export const besideCheckpoints = {
  /** Absent: there are none. */
  electronic_signatures: z.array(esignBlockSchema).exactOptional(),
  /** The number of older ones that are left out. Absent: none. */
  electronic_signatures_left_out: z.int().min(1).exactOptional(),
  /** The code of the error: they could not be read, so there may be some. */
  electronic_signatures_unread: z.enum(ERROR_CODES).exactOptional(),
};
const besideSchema = z.object(besideCheckpoints);
export type SignaturesBeside = Readonly<z.infer<typeof besideSchema>>;

/** What a display adds to a checkpoint: there, the signatures of other versions than the shown one are apart, because their persons have not signed what is shown. */
export const displayedSignaturesSchema = besideSchema.extend({
  other_versions_signatures: z.array(esignBlockSchema).exactOptional(),
});
export type DisplayedSignatures = Readonly<z.infer<typeof displayedSignaturesSchema>>;

/** No record has members of these names: an agent cannot write what would look like a signature. */
export const SIGNATURE_MEMBERS: readonly string[] = Object.keys(displayedSignaturesSchema.shape);

/** The record alone: the same object if it has no member of a display. */
export function withoutSignatures<T extends object>(checkpoint: T): T {
  if (!SIGNATURE_MEMBERS.some((name) => Object.hasOwn(checkpoint, name))) return checkpoint;
  const own = Object.entries(checkpoint).filter(([name]) => !SIGNATURE_MEMBERS.includes(name));
  return Object.fromEntries(own) as T;
}

/** The members of an answer that are beside its checkpoints. */
export const signaturesIn = (answer: SignaturesBeside): SignaturesBeside =>
  Object.fromEntries(Object.entries(answer).filter(([name]) => Object.hasOwn(besideCheckpoints, name)));

/** What a display shows, without all that verifies the signatures. */
export const shownBlocks = (signatures: readonly EsignBlock[]): EsignBlock[] =>
  signatures.map(({ signed: _, entry: __, passkey_acts: ___, ...block }) => block);

/** `payload`: the canonical statement, in base64. It needs no fence, because it changes nothing of the task's work. */
export const signatureAddCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  payload: z.base64("the statement in base64").max(STATEMENT_CHARS),
  proof: sentProofSchema,
});
export type SignatureAddCommand = z.output<typeof signatureAddCommandSchema>;

/** The answer to `signature_add`. */
export const signatureAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  checkpoint_id: z.string(),
  version: z.int(),
  /** SHA-256 of the signed bytes. */
  statement_hash: z.string(),
  audit_seq: z.int(),
  committed_at: z.string(),
  position: z.string(),
  replayed: z.boolean(),
});
export type SignatureAnswer = z.output<typeof signatureAnswerSchema>;

/** The version to be signed: of the newest checkpoint of the task, or of the named one. */
export const signingRequestQuerySchema = z.looseObject({
  task_id: tokenSchema,
  checkpoint_id: checkpointIdSchema.optional(),
  version: z.int().min(1).optional(),
});

export const signingRequestSchema = z.looseObject({
  subject: z.looseObject(esignSubjectSchema.shape),
  /** The time of the fleet. */
  at: z.string(),
  issuers: z.array(
    z.looseObject({
      issuer: z.string(),
      client_id: z.string(),
      scope: z.string(),
      acr_values: z.array(z.string()).exactOptional(),
      name_claim: z.string(),
      /** The domain of the passkeys with which its people may sign. Absent: with none. */
      passkeys: z.looseObject({ rp_id: z.string() }).exactOptional(),
      policy: digestSchema,
    }),
  ),
});
export type SigningRequest = z.infer<typeof signingRequestSchema>;

export const signaturesQuerySchema = z.looseObject({
  task_id: tokenSchema,
  checkpoint_id: checkpointIdSchema.optional(),
  version: z.int().min(1).optional(),
  /** Those that this audit entry and later ones record. */
  from_seq: z.int().min(1).default(1),
  limit: pageLimit(PAGE, PAGE),
});

/** An act of the tenant's audit chain, with the signature of the commit that appended it. */
export const signedActSchema = z.looseObject({
  seq: z.int().min(1),
  /** The hashed text. */
  entry: z.string(),
  /** The last entry that the signature covers. */
  end: z.int().min(1),
  /** DSSE. null: it is unsigned, or its signature is lost. */
  signature: envelopeSchema.nullable(),
});
export type SignedAct = z.infer<typeof signedActSchema>;

/** Of a signature by a passkey: the act that enrolled the passkey, and the one that revoked it, if any. */
export const passkeyActsSchema = z.array(signedActSchema).max(2);

/** A signature with all that verifies it. */
export const listedEsignatureSchema = esignBlockSchema.extend({
  signed: esignedSchema.nullable(),
  /** The audit entry that records it: the hashed text. null: it is lost. */
  entry: z.string().nullable(),
  passkey_acts: passkeyActsSchema.exactOptional(),
});
export type ListedEsignature = z.infer<typeof listedEsignatureSchema>;

export const signaturePageSchema = z.looseObject({
  signatures: z.array(listedEsignatureSchema),
  /** `from_seq` of the next page. Absent on the last one. */
  next_seq: z.int().exactOptional(),
});
export type SignaturePage = z.infer<typeof signaturePageSchema>;

export const ESIGN_QUERY_SCHEMAS = {
  signing_request: signingRequestQuerySchema,
  signatures: signaturesQuerySchema,
  signers: signersQuerySchema,
  signer_revoke: signerRevokeQuerySchema,
  passkey_revoke: passkeyRevokeQuerySchema,
} as const;

export const ESIGN_RESULT_SCHEMAS = {
  signing_request: signingRequestSchema,
  signatures: signaturePageSchema,
  signers: signerPageSchema,
  signer_revoke: revokedSignerSchema,
  passkey_revoke: revokedPasskeySchema,
} as const;

export interface EsignQueryResults {
  signing_request: SigningRequest;
  signatures: SignaturePage;
  signers: SignerPage;
  signer_revoke: RevokedSigner;
  passkey_revoke: RevokedPasskey;
}
