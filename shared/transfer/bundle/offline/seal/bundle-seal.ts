/** Verifies seal.json: the act in the chain of the tenant with which the fleet has signed the manifest, and what it compared before. */
import type { AccessPlace } from "../access/bundle-access.ts";
import { type BundleKeys, textHash } from "../bundle-keys.ts";
import {
  type ExactJson,
  type ExactObject,
  exactObject,
  exactTime,
  hasExactly,
  isCountFrom,
  isExactObject,
  objectIn,
} from "../exact-json.ts";
import type { BundleFindings } from "../findings.ts";

const SEAL_FILE = "seal.json";
/** A clock may be ahead of another by so much. */
const SEAL_SKEW_MS = 30_000;

/** What the seal must state. */
export interface SealedContents {
  readonly keys: BundleKeys;
  readonly findings: BundleFindings;
  readonly manifest: ExactObject;
  /** SHA-256 of its bytes. */
  readonly manifestHash: string;
  readonly counts: Readonly<Record<string, number>>;
  /** The time of the newest entry. */
  readonly newest: number;
  /** null: the export could not be read. */
  readonly endsDigest: string | null;
  /** The last block of the access log. null: the bundle has none. undefined: it could not be read to its end. */
  readonly accessEnd: AccessPlace | null | undefined;
}

export interface JudgedSeal {
  readonly isSealed: boolean;
  readonly complete: "tenant" | "tasks" | null;
  /** Whether the fleet has compared the end of the access log. null: the bundle has none. */
  readonly isAccessComplete: boolean | null;
}

/** `seal`: the content of the file, null if it cannot be read. */
export function judgeSeal(seal: ExactObject | null, contents: SealedContents): JudgedSeal {
  const { keys, findings, accessEnd } = contents;
  const unsealed: JudgedSeal = {
    ...{ isSealed: false, complete: null },
    isAccessComplete: accessEnd === null ? null : false,
  };
  const facts = typeof seal?.entry === "string" ? exactObject(seal.entry) : null;
  if (seal === null || facts === null || !isSealOf(seal, facts, contents)) {
    findings.add("seal", SEAL_FILE);
    return unsealed;
  }
  const seq = seal.seq as number;
  const of = { tenant: String(facts.tenant), task: null, before: undefined };
  const entry = { ...of, seq, hash: textHash(String(seal.entry)), facts };
  const problem = keys.judgeEntry(entry, { seq, judged: keys.judgeEnvelope(seal.signature) }, true);
  if (problem !== null) findings.add(problem, SEAL_FILE);
  else if (keys.isRevoked(String(facts.signed_by))) findings.add("seal_key_revoked", SEAL_FILE);
  else {
    const { extent, ...subject } = objectIn(facts, "subject");
    const isStated = isAccessStated(subject, accessEnd);
    if (!isStated) findings.add("access_unsealed", "access.jsonl");
    return {
      isSealed: true,
      complete: extent === "tenant" || extent === "tasks" ? extent : null,
      isAccessComplete: accessEnd === null ? null : accessEnd !== undefined && isStated,
    };
  }
  return unsealed;
}

function isSealOf(seal: ExactObject, facts: ExactObject, contents: SealedContents): boolean {
  const { manifest, manifestHash } = contents;
  return (
    isOfSealForm(seal) &&
    isCountFrom(1, seal.seq) &&
    facts.seq === seal.seq &&
    facts.action === "export" &&
    facts.tenant === manifest.tenant &&
    !("task" in facts) &&
    objectIn(facts, "subject").manifest === manifestHash &&
    isOfThisExport(facts, contents)
  );
}

/** Nothing else covers the bytes of the file: a further member could be changed after the seal. */
function isOfSealForm(seal: ExactObject): boolean {
  const { signature } = seal;
  if (!hasExactly(seal, "entry", "seq", "signature") || !isExactObject(signature)) return false;
  const { signatures } = signature;
  return (
    hasExactly(signature, "payload", "payloadType", "signatures") &&
    Array.isArray(signatures) &&
    (signatures as readonly ExactJson[]).every((one) => isExactObject(one) && hasExactly(one, "keyid", "sig"))
  );
}

/** The seal is made at the end of the export: later than all that is in it. */
function isOfThisExport(facts: ExactObject, contents: SealedContents): boolean {
  const { manifest, counts, newest } = contents;
  const subject = objectIn(facts, "subject");
  const at = exactTime(facts.at);
  const earliest = Math.max(exactTime(manifest.exported_at)!, newest) - SEAL_SKEW_MS;
  const isOfContents = subject.tasks === counts.tasks && subject.entries === counts.entries;
  return at !== null && at >= earliest && isOfContents && areEnds(subject, contents);
}

/** The seal of an export with very many tasks has no ends. What was compared must be of the time that the manifest states. */
function areEnds(subject: ExactObject, { manifest, endsDigest }: SealedContents): boolean {
  const { ends, extent, exported_at } = subject;
  const hasEnds = ends !== undefined || extent !== undefined;
  const isCompared = hasEnds || "access_seq" in subject || "access_hash" in subject;
  if (isCompared && exported_at !== manifest.exported_at) return false;
  if (!hasEnds) return true;
  const { tasks, since } = objectIn(manifest, "scope");
  const isOfScope = extent === "tasks" || (extent === "tenant" && tasks === null && since === null);
  return isOfScope && ends === endsDigest;
}

/** Whether the fleet states this end of the access log, and none if the bundle has no log. A log with a fault has a finding of its own. */
function isAccessStated({ access_seq, access_hash }: ExactObject, end: SealedContents["accessEnd"]): boolean {
  if (end === undefined) return true;
  return access_seq === end?.seq && access_hash === end?.hash;
}
