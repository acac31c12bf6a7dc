/**
 * Verifies that the chain of the tenant records the passkey of an electronic signature: a signed act enrolled exactly this one, and none revoked it before
 * the signature.
 */
import { exactBase64 } from "../../../integrity/merkle/note.ts";
import { type BundleKeys, textHash } from "./bundle-keys.ts";
import type { LineEntry } from "./bundle-lines.ts";
import {
  type ExactJson,
  type ExactObject,
  exactObject,
  exactObjectIn,
  exactText,
  exactTime,
  isCountFrom,
  isExactObject,
  objectIn,
} from "./exact-json.ts";

/** A clock may be ahead of another by so much. */
const REVOKE_SKEW_MS = 30_000;

interface PasskeyActLine {
  readonly seq: number;
  readonly text: string;
  readonly facts: ExactObject;
  readonly end: number;
  readonly signature: ExactJson | undefined;
}

export interface PasskeyParts {
  readonly keys: BundleKeys;
  /** Whether the fleet states that all entries of the task are signed. */
  readonly isRequired: boolean;
}

/** `proof`: verified, of a passkey. null: the passkey was enrolled, and not revoked before. */
export function passkeyFault(
  { tenant, facts, line }: LineEntry,
  proof: ExactObject,
  parts: PasskeyParts,
): "esign_passkey" | "esign_revoked" | null {
  const { passkey_acts: acts } = line;
  const [first, second, ...others] = Array.isArray(acts) ? (acts as readonly ExactJson[]) : [];
  const added = passkeyActAt(first, "passkey_add", tenant);
  const expected = enrolmentIn(facts, objectIn(proof, "enrolment"));
  if (added === null || expected === null || others.length > 0) return "esign_passkey";
  const stated = objectIn(added.facts, "subject");
  const isEnrolled =
    added.seq === facts.passkey_seq &&
    Object.entries(expected).every(([name, value]) => stated[name] === value);
  if (!isEnrolled || !isActSigned(added, { tenant, facts }, parts)) return "esign_passkey";
  if (second === undefined) return null;
  const revoked = passkeyActAt(second, "passkey_revoke", tenant);
  const isOfPasskey =
    revoked !== null &&
    revoked.seq > added.seq &&
    objectIn(revoked.facts, "subject").passkey_id === expected.passkey_id &&
    isActSigned(revoked, { tenant, facts }, parts);
  if (!isOfPasskey) return "esign_passkey";
  const [signedAt, revokedAt] = [exactTime(facts.at), exactTime(revoked.facts.at)];
  const isBefore = signedAt !== null && revokedAt !== null && signedAt <= revokedAt + REVOKE_SKEW_MS;
  return isBefore ? null : "esign_revoked";
}

/** What the act of the enrolment must state. null: the enrolment names no passkey. */
function enrolmentIn(
  { signer_issuer: issuer, signer_subject: subject }: ExactObject,
  login: ExactObject,
): Record<string, ExactJson | undefined> | null {
  const payload = typeof login.payload === "string" ? exactBase64(login.payload) : null;
  const enrolment = payload === null ? null : exactObjectIn(payload);
  const credential = enrolment === null ? null : objectIn(enrolment, "passkey").credential_id;
  if (typeof credential !== "string") return null;
  return { issuer, subject, passkey_id: textHash(credential), enrolment_hash: textHash(exactText(login)) };
}

function passkeyActAt(value: ExactJson | undefined, action: string, tenant: string): PasskeyActLine | null {
  if (value === undefined || !isExactObject(value)) return null;
  const { seq, entry: text, end, signature } = value;
  const facts = typeof text === "string" ? exactObject(text) : null;
  if (facts === null || typeof text !== "string" || !isCountFrom(1, seq) || !isCountFrom(seq, end))
    return null;
  const isAct = facts.seq === seq && facts.action === action && facts.tenant === tenant && !("task" in facts);
  return isAct ? { seq, text, facts, end, signature } : null;
}

/** A service that signs the entries of the task signs the acts of the tenant too. */
function isActSigned(
  { seq, text, facts, end, signature }: PasskeyActLine,
  of: Pick<LineEntry, "tenant" | "facts">,
  { keys, isRequired }: PasskeyParts,
): boolean {
  const entry = { tenant: of.tenant, task: null, seq, hash: textHash(text), facts, before: undefined };
  const after = signature === null ? null : { seq: end, judged: keys.judgeEnvelope(signature) };
  const problem = keys.judgeEntry(entry, after, isRequired || of.facts.signed_by !== undefined);
  return problem === null || problem === "unsigned";
}
