/**
 * Judges a stored electronic signature, offline. It must be that of this place: a signature that was copied to another version, task or tenant is
 * none there. That the key was the provider's is the statement of the fleet, whose signed audit entry has the hash of the whole proof.
 */
import {
  ESIGN_PAYLOAD_TYPE,
  type EsignBlock,
  type Esigned,
  type EsignProblem,
  type EsignStatement,
} from "../../protocol/esign.ts";
import type { EsignProof } from "../../protocol/esign-proof.ts";
import { exactBase64 } from "../merkle/note.ts";
import { actsProblem, type PlacedAct } from "./enrolment-act.ts";
import { proofHash, proofProblem } from "./proof.ts";
import { statementFrom, statementHash } from "./statement.ts";

export interface EsignPlace {
  readonly tenant: string;
  readonly task: string;
  readonly checkpoint_id: string;
  readonly version: number;
  /** The hash of the version. Absent: the version is not there to compare. */
  readonly hash?: string | undefined;
  /** The number of the audit entry. */
  readonly seq: number;
  /** Its facts. undefined: it is lost or cannot be read. */
  readonly facts: Readonly<Record<string, unknown>> | undefined;
  /** Of a signature by a passkey: the acts of the tenant that enrolled the passkey and, if it was revoked, revoked it. */
  readonly acts?: readonly PlacedAct[] | undefined;
}

export interface JudgedEsignature {
  readonly problem: EsignProblem | null;
  /** null unless the statement is what its person signed. */
  readonly statement: EsignStatement | null;
  /** How its person proved it. Absent without a statement. */
  readonly method?: EsignProof["kind"];
}

/** `signed` null: the stored value cannot be read. */
export function judgeEsignature(signed: Esigned | null, place: EsignPlace): JudgedEsignature {
  const payload = signed?.payload_type === ESIGN_PAYLOAD_TYPE ? exactBase64(signed.payload) : null;
  const statement = payload === null ? null : statementFrom(payload);
  if (signed === null || payload === null || statement === null)
    return { problem: "statement_invalid", statement: null };
  const problem = proofProblem(signed.proof, statement, payload);
  if (problem !== null) return { problem, statement: null };
  const method = signed.proof.kind;
  return { problem: problemAt(signed, statement, payload, place), statement, method };
}

function problemAt(
  signed: Esigned,
  { subject, signer, meaning }: EsignStatement,
  payload: Uint8Array,
  { tenant, task, checkpoint_id, version, hash, seq, facts = {}, acts = [] }: EsignPlace,
): EsignProblem | null {
  const isHere =
    subject.tenant === tenant &&
    subject.task === task &&
    subject.checkpoint_id === checkpoint_id &&
    subject.version === version;
  if (!isHere) return "moved";
  if (hash !== undefined && hash !== subject.hash) return "content_changed";
  const recorded = {
    ...{ op: "signature_add", tenant, task, seq, checkpoint_id, version, old_hash: subject.hash, meaning },
    ...{ signer_issuer: signer.id.issuer, signer_subject: signer.id.subject },
    ...{ statement_hash: statementHash(payload), proof_hash: proofHash(signed.proof) },
  };
  const isRecorded = Object.entries(recorded).every(([name, value]) => facts[name] === value);
  if (!isRecorded) return "not_recorded";
  return signed.proof.kind === "webauthn"
    ? actsProblem(signed.proof, { tenant, signer: signer.id, facts }, acts)
    : null;
}

/** What displays show. The statement of a signature that is not its person's is not shown. */
export function esignBlockOf(
  { problem, statement, method }: JudgedEsignature,
  { checkpoint_id, version, seq }: Pick<EsignPlace, "checkpoint_id" | "version" | "seq">,
): EsignBlock {
  const { signer, signed_at, zone, meaning, reason } = statement ?? {};
  return {
    state: problem ?? "valid",
    printed_name: signer?.printed_name ?? null,
    signed_at: signed_at ?? null,
    zone: zone ?? null,
    meaning: meaning ?? null,
    ...(reason !== undefined && { reason }),
    signer: signer === undefined ? null : { ...signer.id },
    method: method ?? null,
    checkpoint_id,
    version,
    audit_seq: seq,
  };
}
