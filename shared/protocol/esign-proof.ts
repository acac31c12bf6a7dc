/**
 * The proofs of electronic signatures. A login: a token of the identity provider over the statement. A passkey: a signature of an authenticator of the person
 * over the statement (WebAuthn), with the enrolment, in which a token of the identity provider says that the passkey is the person's.
 */
import { z } from "zod";
import { namedSignerSchema, passkeySchema, personTimeSchema, signerIdSchema } from "./esign-signer.ts";
import { digestSchema, tokenSchema } from "./ids.ts";

export const PASSKEY_PAYLOAD_TYPE = "application/vnd.fleet.esign-passkey.v1+json";

const TOKEN_CHARS = 8_192;
const ENROLMENT_CHARS = 8_192;
/** Authenticators may make ids of up to 1,023 bytes. */
const CREDENTIAL_CHARS = 1_364;
const ASSERTION_CHARS = 4_096;
const KEY_CHARS = 2_048;
const DOMAIN_CHARS = 253;

/** A domain in lower case, as browsers write it. */
export const domainSchema = z
  .string()
  .max(DOMAIN_CHARS)
  .regex(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/, "a domain");

const base64Url = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[A-Za-z0-9_-]*$/, "base64url");

/** The public key of the provider that verifies the token, so that the signature verifies offline for good. */
export const esignKeySchema = z.looseObject({ kty: z.string() });
export type EsignKey = z.infer<typeof esignKeySchema>;

/** What a person states with a login at the identity provider: this passkey is mine. The bytes are its canonical JSON (RFC 8785). */
export const passkeyEnrolmentSchema = z.strictObject({
  v: z.literal(1),
  tenant: tokenSchema,
  signer: namedSignerSchema,
  passkey: z.strictObject({
    /** As the browser gives it: `rawId`, in base64url. */
    credential_id: base64Url(CREDENTIAL_CHARS),
    /** The public key (RFC 7517). */
    jwk: z.record(z.string().max(16), z.string().max(KEY_CHARS)),
    /** The domain of the pages for which it signs. */
    rp_id: domainSchema,
  }),
  enrolled_at: personTimeSchema,
  /** SHA-256 of the rules of the fleet for the issuer. */
  policy: digestSchema,
});
export type PasskeyEnrolment = z.infer<typeof passkeyEnrolmentSchema>;

const loginProofSchema = z.looseObject({
  kind: z.literal("oidc"),
  /** Compact JWS. Its nonce is the SHA-256 of the signed bytes, in base64url. */
  id_token: z.string().max(TOKEN_CHARS),
  jwk: esignKeySchema,
});

const storedEnrolmentSchema = z.looseObject({
  /** The enrolment, in base64. */
  payload: z.string().max(ENROLMENT_CHARS),
  /** Compact JWS. Its nonce is the SHA-256 of the signed bytes of the enrolment. */
  id_token: z.string().max(TOKEN_CHARS),
  jwk: esignKeySchema,
});
export type StoredEnrolment = z.infer<typeof storedEnrolmentSchema>;

/** The record of a passkey in the store. */
export const storedPasskeySchema = passkeySchema.extend({
  signer: signerIdSchema,
  enrolment: storedEnrolmentSchema,
  sign_count: z.int().min(0),
});
export type StoredPasskey = z.infer<typeof storedPasskeySchema>;

const passkeyProofSchema = z.looseObject({
  kind: z.literal("webauthn"),
  /** base64url. */
  authenticator_data: z.string().max(ASSERTION_CHARS),
  /** The bytes of clientDataJSON, in base64url. Its challenge is the SHA-256 of the signed bytes, in base64url. */
  client_data: z.string().max(ASSERTION_CHARS),
  /** In base64url; that of an elliptic curve is r and s, with 32 bytes each. */
  signature: z.string().max(ASSERTION_CHARS),
  enrolment: storedEnrolmentSchema,
});
export type PasskeyProof = z.infer<typeof passkeyProofSchema>;

export const esignProofSchema = z.discriminatedUnion("kind", [loginProofSchema, passkeyProofSchema]);
export type EsignProof = z.infer<typeof esignProofSchema>;

export const ESIGN_METHODS = ["oidc", "webauthn"] as const satisfies readonly EsignProof["kind"][];

const idTokenSchema = z.string().min(1, "the ID token of the step-up").max(TOKEN_CHARS);

const sentPasskeySchema = z.looseObject({
  kind: z.literal("webauthn"),
  /** `rawId` of the answer of the browser. All members are base64url. */
  credential_id: base64Url(CREDENTIAL_CHARS),
  authenticator_data: base64Url(ASSERTION_CHARS),
  client_data: base64Url(ASSERTION_CHARS),
  /** As the browser gives it: that of an elliptic curve is DER. */
  signature: base64Url(ASSERTION_CHARS),
  /** With the first signature of a passkey. `payload`: the canonical enrolment, in base64. */
  enrolment: z
    .looseObject({
      payload: z.base64("the enrolment in base64").max(ENROLMENT_CHARS),
      id_token: idTokenSchema,
    })
    .optional(),
});
export type SentPasskey = z.output<typeof sentPasskeySchema>;

/** What a caller sends. The fleet adds the public key of the provider, and the enrolment of a known passkey. */
export const sentProofSchema = z.discriminatedUnion(
  "kind",
  [z.looseObject({ kind: z.literal("oidc"), id_token: idTokenSchema }), sentPasskeySchema],
  { error: "oidc or webauthn" },
);
export type SentProof = z.output<typeof sentProofSchema>;
