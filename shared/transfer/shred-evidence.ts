/** Verifies a certificate of shredding with nothing but a public key. All of it comes from outside, so each fault is an answer. */
import { isTextSignature, keyIdOf, signedBytes } from "../integrity/dsse.ts";
import { createRemovedDigest } from "../integrity/shred/shred-certificate.ts";
import {
  SHRED_PAYLOAD_TYPE,
  type ShredStatement,
  shredEvidenceSchema,
  shredStatementSchema,
} from "../protocol/shred-certificate.ts";

export interface JudgedShred {
  /** null: the certificate is valid, and the list is that of the statement. */
  readonly problem: string | null;
  /** null: it cannot be read, or is not signed with its key. */
  readonly statement: ShredStatement | null;
  readonly key_id: string | null;
}

const refused = (problem: string): JudgedShred => ({ problem, statement: null, key_id: null });

/** What the verifier knows about keys. */
export interface ShredTrust {
  /** Of trusted keys. Empty: any, and the caller compares `key_id`. */
  readonly keyIds: readonly string[];
  /** Of revoked keys: a thief may have one, and can state any time. */
  readonly revoked: readonly string[];
}

export function judgeShred(value: unknown, { keyIds, revoked }: ShredTrust): JudgedShred {
  const parsed = shredEvidenceSchema.safeParse(value);
  if (!parsed.success) return refused("it is not a certificate of shredding");
  const { envelope, public_key: key, checkpoints } = parsed.data;
  const [signature, ...others] = envelope.signatures;
  if (envelope.payloadType !== SHRED_PAYLOAD_TYPE) return refused("it is a signature for another purpose");
  if (signature === undefined || others.length > 0 || key === null) return refused("it is not signed");
  const payload = Buffer.from(envelope.payload, "base64");
  const isSigned = isTextSignature(
    key,
    signedBytes(envelope.payloadType, payload),
    Buffer.from(signature.sig, "base64"),
  );
  if (!isSigned || signature.keyid !== keyIdOf(key)) return refused("its signature does not verify");
  const statement = statementIn(payload);
  if (statement === null) return refused("it states something else");
  const known = { statement, key_id: signature.keyid };
  if (keyIds.length > 0 && !keyIds.includes(signature.keyid))
    return { ...known, problem: "it is signed with another key" };
  if (revoked.includes(signature.keyid)) return { ...known, problem: "its key was revoked" };
  const digest = createRemovedDigest();
  for (const one of checkpoints) digest.add(one);
  const { count, sha256 } = digest.finish();
  const isSame = count === statement.checkpoints.count && sha256 === statement.checkpoints.sha256;
  return { ...known, problem: isSame ? null : "its checkpoints are not those of the statement" };
}

function statementIn(payload: Uint8Array): ShredStatement | null {
  try {
    return shredStatementSchema.parse(JSON.parse(Buffer.from(payload).toString()));
  } catch {
    return null;
  }
}
