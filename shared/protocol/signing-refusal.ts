/** Refused signatures of people. Each is a failed attempt: it is audited, counted and alerted. 21 CFR 11.300(d). */
import { FleetError } from "./errors.ts";

export const SIGNING_REFUSALS = {
  not_a_person: "only a person may sign",
  statement: "the statement is not the canonical form of a statement",
  subject: "the statement is about another task or tenant",
  issuer: "the identity provider is not one for signatures of this tenant",
  token: "the token does not verify",
  audience: "the token is for another client",
  nonce: "the token, or the answer of the passkey, is for another statement",
  person: "the token is that of another person",
  name: "the printed name is not that of the token",
  caller: "the token is not that of the caller",
  stale: "the person did not authenticate for this statement, within minutes",
  assurance: "the person did not authenticate as the fleet requires",
  policy: "the rules for signatures have changed since the request",
  head: "the statement names an audit entry that the task does not have",
  content: "the version has another hash",
  replayed: "the statement is signed already",
  revoked: "the signer was revoked",
  passkeys_off: "the fleet accepts no passkeys of people of this identity provider",
  enrolment: "the enrolment of the passkey is for another person, tenant, name, key or domain",
  passkey: "the passkey is not enrolled for this person",
  passkey_revoked: "the passkey was revoked",
  passkey_record:
    "the audit chain does not prove the record of the passkey; revoke it, and enrol another one",
  assertion: "the answer of the passkey does not verify",
  origin: "the answer of the passkey is for another page",
  counter: "the authenticator has counted fewer signatures than before: it may be a copy",
} as const;
export type SigningRefusalReason = keyof typeof SIGNING_REFUSALS;
export const SIGNING_REFUSAL_REASONS = Object.keys(SIGNING_REFUSALS) as SigningRefusalReason[];

export class SigningRefused extends FleetError {
  readonly reason: SigningRefusalReason;

  /** `facts`: what the person is to know besides the reason. */
  constructor(reason: SigningRefusalReason, cause?: unknown, facts: Readonly<Record<string, string>> = {}) {
    super("FORBIDDEN", SIGNING_REFUSALS[reason], { details: { reason, ...facts }, cause });
    this.reason = reason;
  }
}
