/**
 * Verifies the proof of an electronic signature: a login, or a passkey. A passkey is enrolled with its first signature, so an enrolment always has a proof that
 * the person has the passkey, and its authenticator verifies the person.
 */
import {
  type EsignIssuers,
  isStatedNow,
  judgePerson,
} from "../../../shared/bus/access/issuers/esign-issuers.ts";
import {
  type Assertion,
  assertionFault,
  passkeyAlgorithm,
} from "../../../shared/integrity/esign/assertion.ts";
import {
  enrolmentFrom,
  enrolmentNonce,
  fixedSignature,
  pageOriginOf,
  signCountOf,
} from "../../../shared/integrity/esign/passkey.ts";
import { proofProblem } from "../../../shared/integrity/esign/proof.ts";
import { esignNonce, esignPolicy, statementFrom } from "../../../shared/integrity/esign/statement.ts";
import { verifiedClaims } from "../../../shared/integrity/esign/token-signature.ts";
import {
  ESIGN_PAYLOAD_TYPE,
  type EsignStatement,
  type SignatureAddCommand,
} from "../../../shared/protocol/esign.ts";
import type {
  EsignProof,
  PasskeyEnrolment,
  PasskeyProof,
  SentPasskey,
  StoredEnrolment,
} from "../../../shared/protocol/esign-proof.ts";
import type { EsignIssuerSettings } from "../../../shared/protocol/esign-settings.ts";
import { LOCAL_PAGES } from "../../../shared/protocol/passkey-origin.ts";
import { SigningRefused } from "../../../shared/protocol/signing-refusal.ts";
import type { UsedPasskey } from "../../../shared/records/esign/passkeys.ts";
import type { VerifiedEsignature } from "../../../shared/records/esign/sign.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";

interface ProofParts {
  readonly repository: CheckpointRepository;
  readonly issuers: EsignIssuers;
  readonly now: () => number;
}

interface Signing {
  readonly tenant: string;
  /** The person that sends it. */
  readonly caller: string;
  readonly task: string;
}

interface StatedSigning extends Signing {
  readonly statement: EsignStatement;
  readonly payload: Buffer;
  readonly settings: EsignIssuerSettings;
}

interface ProvedSigning {
  readonly proof: EsignProof;
  readonly passkey?: UsedPasskey;
}

/** Throws SigningRefused, or UNAVAILABLE without the keys of the provider or the store. */
export async function verifySigning(
  parts: ProofParts,
  signing: Signing,
  { payload: base64, proof: sent }: Pick<SignatureAddCommand, "payload" | "proof">,
): Promise<VerifiedEsignature> {
  const payload = Buffer.from(base64, "base64");
  const statement = statementFrom(payload);
  if (statement === null) throw new SigningRefused("statement");
  const { subject, signer, policy } = statement;
  if (subject.tenant !== signing.tenant || subject.task !== signing.task) throw new SigningRefused("subject");
  const settings = parts.issuers.of(signing.tenant).find(({ issuer }) => issuer === signer.id.issuer);
  if (settings === undefined) throw new SigningRefused("issuer");
  if (esignPolicy(settings) !== policy) throw new SigningRefused("policy");
  const stated = { ...signing, statement, payload, settings };
  const proved =
    sent.kind === "oidc"
      ? { proof: await loginProof(parts, stated, sent.id_token) }
      : await passkeyProof(parts, stated, sent);
  // A form that the verifiers of bundles refuse could not be shown to an auditor.
  if (proofProblem(proved.proof, statement, payload) !== null) throw new SigningRefused("token");
  const { proof, ...passkey } = proved;
  return {
    ...{ statement, ...passkey },
    signed: { payload_type: ESIGN_PAYLOAD_TYPE, payload: payload.toString("base64"), proof },
  };
}

async function loginProof(
  { issuers, now }: ProofParts,
  { tenant, caller, statement: { signer, signed_at }, payload }: StatedSigning,
  token: string,
): Promise<EsignProof> {
  const jwk = await issuers.verify(token, {
    ...{ tenant, caller, signer: signer.id, printedName: signer.printed_name },
    ...{ nonce: esignNonce(payload), signedAtMs: Date.parse(signed_at), nowMs: now() },
  });
  return { kind: "oidc", id_token: token, jwk };
}

async function passkeyProof(
  parts: ProofParts,
  stated: StatedSigning,
  sent: SentPasskey,
): Promise<ProvedSigning> {
  const { statement, settings, payload } = stated;
  if (settings.passkeys === undefined) throw new SigningRefused("passkeys_off");
  if (!isStatedNow(Date.parse(statement.signed_at), parts.now())) throw new SigningRefused("stale");
  const { enrolment, stored } = await enrolmentFor(parts, stated, sent);
  const { jwk, rp_id } = enrolment.passkey;
  const assertion = {
    authenticator_data: sent.authenticator_data,
    client_data: sent.client_data,
    signature: storedSignature(sent.signature, jwk),
  };
  const fault = assertionFault(assertion, { jwk, rp_id }, esignNonce(payload));
  if (fault !== null) throw new SigningRefused(fault);
  requireOrigin(assertion, settings);
  const proof: PasskeyProof = { kind: "webauthn", ...assertion, enrolment: stored };
  const signCount = signCountOf(assertion.authenticator_data);
  const used = { credentialId: sent.credential_id, rpId: rp_id, enrolment: stored, signCount };
  return { proof, passkey: used };
}

interface KnownEnrolment {
  readonly enrolment: PasskeyEnrolment;
  readonly stored: StoredEnrolment;
}

/** That of a known passkey, or a new one. It must be of this person, with this name, and for the pages of the fleet. */
async function enrolmentFor(
  parts: ProofParts,
  stated: StatedSigning,
  { credential_id, enrolment: sent }: SentPasskey,
): Promise<KnownEnrolment> {
  const { tenant, settings, statement, caller } = stated;
  const stored =
    sent === undefined
      ? await parts.repository.esignatures.enrolmentOf(tenant, credential_id)
      : await newEnrolment(parts, stated, sent);
  if (stored === null) throw new SigningRefused("passkey");
  const enrolment = enrolmentFrom(Buffer.from(stored.payload, "base64"));
  const { id, printed_name } = statement.signer;
  const { signer, passkey } = enrolment ?? {};
  if (signer?.id.issuer !== id.issuer || signer.id.subject !== id.subject)
    throw new SigningRefused("passkey");
  const isFitting =
    signer.printed_name === printed_name &&
    enrolment?.tenant === tenant &&
    passkey?.credential_id === credential_id &&
    passkey.rp_id === settings.passkeys?.rp_id &&
    passkeyAlgorithm(passkey.jwk) !== null;
  if (!isFitting) throw new SigningRefused("enrolment");
  judgePerson(verifiedClaims(stored) ?? {}, settings, caller);
  return { enrolment: enrolment!, stored };
}

/** The login of the person for the enrolment. */
async function newEnrolment(
  { issuers, now }: ProofParts,
  { tenant, caller, settings }: StatedSigning,
  { payload: base64, id_token }: NonNullable<SentPasskey["enrolment"]>,
): Promise<StoredEnrolment> {
  const payload = Buffer.from(base64, "base64");
  const enrolment = enrolmentFrom(payload);
  if (enrolment === null) throw new SigningRefused("enrolment");
  if (esignPolicy(settings) !== enrolment.policy) throw new SigningRefused("policy");
  const { signer, enrolled_at } = enrolment;
  const jwk = await issuers.verify(id_token, {
    ...{ tenant, caller, signer: signer.id, printedName: signer.printed_name },
    ...{ nonce: enrolmentNonce(payload), signedAtMs: Date.parse(enrolled_at), nowMs: now() },
  });
  return { payload: payload.toString("base64"), id_token, jwk };
}

/** In the form that is stored. */
function storedSignature(encoded: string, { kty }: Readonly<Record<string, unknown>>): string {
  const bytes = Buffer.from(encoded, "base64url");
  const fixed = kty === "EC" ? fixedSignature(bytes) : bytes;
  if (fixed === null) throw new SigningRefused("assertion");
  return fixed.toString("base64url");
}

function requireOrigin({ client_data }: Assertion, { passkeys }: EsignIssuerSettings): void {
  const { rp_id, origins } = passkeys!;
  const origin = String(pageOriginOf(client_data));
  const isAccepted =
    origins?.includes(origin) ??
    (rp_id === LOCAL_PAGES ? origin.startsWith(`http://${LOCAL_PAGES}`) : origin === `https://${rp_id}`);
  if (!isAccepted) throw new SigningRefused("origin");
}
