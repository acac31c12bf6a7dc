/** The acts in the audit chain of a tenant that concern its signers and their passkeys. */
import { canonicalText, sha256Hex } from "../../integrity/canonical.ts";
import type { EnrolmentFacts } from "../../integrity/esign/enrolment-act.ts";
import type { SignerId } from "../../protocol/esign-signer.ts";

const SIGNER_ACTS = ["passkey_add", "passkey_revoke", "signer_revoke"] as const;

export interface SignerAct extends SignerId {
  readonly action: (typeof SIGNER_ACTS)[number];
  /** The number of the entry, its time, and the principal that acted. */
  readonly seq: number;
  readonly at: string;
  readonly by: string;
  /** Empty for an act that concerns no passkey. */
  readonly passkey_id: string;
  /** Empty for an act that enrols none. */
  readonly enrolment_hash: string;
  /** Empty for an act that revokes nothing. */
  readonly reason: string;
}

export type PasskeyAct = EnrolmentFacts & Pick<SignerAct, "seq" | "at" | "by">;

/** `facts`: of the entry `seq`. null: it is no such act of this tenant. */
export function signerActIn(tenant: string, seq: number, facts: object | undefined): SignerAct | null {
  const entry = (facts ?? {}) as Readonly<Record<string, unknown>>;
  const { action, tenant: stated, seq: place, subject, at, actor } = entry;
  const known = SIGNER_ACTS.find((one) => one === action);
  if (known === undefined || stated !== tenant || place !== seq) return null;
  const {
    issuer,
    subject: person,
    passkey_id,
    enrolment_hash,
    reason,
  } = (subject ?? {}) as Readonly<Record<string, unknown>>;
  return {
    ...{ action: known, seq, at: textOf(at), by: textOf((actor as { readonly id?: unknown } | null)?.id) },
    ...{ issuer: textOf(issuer), subject: textOf(person) },
    ...{ passkey_id: textOf(passkey_id), enrolment_hash: textOf(enrolment_hash) },
    reason: textOf(reason),
  };
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** The name of a person's record. */
export function signerName({ issuer, subject }: SignerId): string {
  return sha256Hex(canonicalText({ issuer, subject }));
}
