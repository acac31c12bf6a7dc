/**
 * The acts about a passkey in the audit chain of a tenant. `passkey_add` binds the whole enrolment: the key, its person, and the login that proves it.
 * `passkey_revoke` ends its use.
 */
import type { EsignProblem } from "../../protocol/esign.ts";
import type { PasskeyProof, StoredEnrolment } from "../../protocol/esign-proof.ts";
import type { SignerId } from "../../protocol/esign-signer.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { canonicalText, sha256Hex } from "../canonical.ts";
import { enrolmentFrom, passkeyIdOf } from "./passkey.ts";

/** The `subject` of the act. */
export interface EnrolmentFacts {
  readonly issuer: string;
  readonly subject: string;
  readonly passkey_id: string;
  readonly enrolment_hash: string;
}

export const enrolmentHash = ({ payload, id_token, jwk }: StoredEnrolment): string =>
  sha256Hex(canonicalText({ payload, id_token, jwk }));

export function enrolmentFacts(
  { issuer, subject }: SignerId,
  credentialId: string,
  enrolment: StoredEnrolment,
): EnrolmentFacts {
  return {
    ...{ issuer, subject, passkey_id: passkeyIdOf(credentialId) },
    enrolment_hash: enrolmentHash(enrolment),
  };
}

/** Whether the facts of an act state exactly this. */
export function statesEnrolment(stated: unknown, expected: EnrolmentFacts): boolean {
  const facts = (stated ?? {}) as Readonly<Record<string, unknown>>;
  return Object.entries(expected).every(([name, value]) => facts[name] === value);
}

/** An act of the tenant's chain. */
export interface PlacedAct {
  readonly seq: number;
  /** undefined: it cannot be read. */
  readonly facts: Readonly<Record<string, unknown>> | undefined;
}

export function placedAct({ seq, entry }: { readonly seq: number; readonly entry: string }): PlacedAct {
  try {
    return { seq, facts: JSON.parse(entry) as PlacedAct["facts"] };
  } catch {
    return { seq, facts: undefined };
  }
}

interface SignedEntry {
  readonly tenant: string;
  readonly signer: SignerId;
  /** The facts of the entry `signature_add`. */
  readonly facts: Readonly<Record<string, unknown>>;
}

/** `acts`: the enrolment, and the revocation if there is one. null: the passkey was enrolled, and not revoked before. */
export function actsProblem(
  { enrolment }: PasskeyProof,
  { tenant, signer, facts }: SignedEntry,
  [added, revoked]: readonly PlacedAct[],
): EsignProblem | null {
  const credentialId = enrolmentFrom(Buffer.from(enrolment.payload, "base64"))?.passkey.credential_id;
  const expected = enrolmentFacts(signer, String(credentialId), enrolment);
  const isAdded =
    added !== undefined &&
    added.seq === facts.passkey_seq &&
    isAct(added, "passkey_add", tenant) &&
    statesEnrolment(added.facts?.subject, expected);
  if (!isAdded) return "passkey_unrecorded";
  if (revoked === undefined) return null;
  const { passkey_id } = (revoked.facts?.subject ?? {}) as { readonly passkey_id?: unknown };
  if (!isAct(revoked, "passkey_revoke", tenant) || passkey_id !== expected.passkey_id)
    return "passkey_unrecorded";
  // The clocks of two services differ a little.
  const latest = Date.parse(String(revoked.facts?.at)) + LIMITS.clock_skew_ms_max;
  return Date.parse(String(facts.at)) <= latest ? null : "passkey_revoked";
}

const isAct = ({ seq, facts }: PlacedAct, action: string, tenant: string): boolean =>
  facts?.action === action && facts.tenant === tenant && facts.seq === seq;
