/** The electronic signature of a person on a version. It changes nothing of the task. */
import type { EsignStatement } from "../../protocol/esign.ts";
import type { Decision } from "../decision.ts";

export interface SignedInput {
  readonly statement: EsignStatement;
  /** SHA-256 of the signed bytes, hex. */
  readonly statementHash: string;
  /** SHA-256 of the proof, hex. */
  readonly proofHash: string;
  /** The entry of the tenant's audit chain that records the enrolment of the passkey; null: the person has logged in. */
  readonly passkeySeq: number | null;
}

export function sign(
  decision: Decision,
  { statement, statementHash, proofHash, passkeySeq }: SignedInput,
): Decision {
  const { subject, signer, meaning } = statement;
  const { checkpoint_id: id, version, hash } = subject;
  return decision.add("signature_add", {
    // Without a new hash: the entry makes no version.
    checkpoint: { id, version, oldHash: hash, newHash: null },
    facts: {
      meaning,
      ...(passkeySeq !== null && { passkey_seq: passkeySeq }),
      proof_hash: proofHash,
      signer_issuer: signer.id.issuer,
      signer_subject: signer.id.subject,
      statement_hash: statementHash,
    },
    event: {
      type: "CHECKPOINT_SIGNED",
      data: {
        checkpointId: id,
        taskId: subject.task,
        version,
        meaning,
        printedName: signer.printed_name,
      },
    },
  });
}
