/**
 * The signature of a commit: one for each chain to which the commit appends. Its statement names every appended entry
 * by its hash, and every version that they made, so each of them is verified with the statement alone. Pure functions
 * over the exact bytes; an auditor needs nothing else but the public keys.
 */
import { DEFAULT_TENANT } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import {
  countsAtOnce,
  KEY_PURPOSE,
  type SignatureProblem,
  type SigningKeyRecord,
} from "../protocol/signing-keys.ts";
import { signBatch, signedPart } from "./batch-signature.ts";
import { canonicalText } from "./canonical.ts";
import { type Envelope, isSignature, isTextSignature, keyIdOf, type SigningKey } from "./dsse.ts";

export const COMMIT_PAYLOAD_TYPE = "application/vnd.fleet.commit.v1+json";
const STATEMENT_VERSION = 1;

/** A version of a checkpoint, as its entry names it. */
export interface SignedVersion {
  readonly hash: string;
  readonly id: string;
  readonly version: number;
}

export interface CommitStatement {
  /** The time of the newest entry, by the clock of the signer. */
  readonly at: string;
  readonly checkpoints: readonly SignedVersion[];
  /** The hashes of the entries, in their order. */
  readonly entries: readonly string[];
  /** The number of the first entry in its chain. */
  readonly first: number;
  /** null: the chain of the tenant. */
  readonly task: string | null;
  readonly tenant: string;
}

export interface CommitSignature {
  readonly keyId: string;
  /** The canonical bytes of the statement. */
  readonly payload: Uint8Array;
  /** Of the payload alone, or of a batch: see `batch-signature.ts`. */
  readonly signature: Uint8Array;
}

/** Signs the statements of several commits at once, which takes about as long as one. */
export function signStatements(key: SigningKey, statements: readonly CommitStatement[]): CommitSignature[] {
  const payloads = statements.map(payloadOf);
  const signatures = signBatch(key, COMMIT_PAYLOAD_TYPE, payloads);
  return payloads.map((payload, i) => ({ keyId: key.id, payload, signature: signatures[i]! }));
}

function payloadOf({ at, checkpoints, entries, first, task, tenant }: CommitStatement): Uint8Array {
  // In the order of their names, so that the canonical form needs no sorting.
  return Buffer.from(canonicalText({ at, checkpoints, entries, first, task, tenant, v: STATEMENT_VERSION }));
}

/** The number of the last entry, under which the signature is stored. */
export function lastEntryOf({ first, entries }: Pick<CommitStatement, "first" | "entries">): number {
  return first + entries.length - 1;
}

export function envelopeOf({ keyId, payload, signature }: CommitSignature): Envelope {
  return {
    payloadType: COMMIT_PAYLOAD_TYPE,
    payload: Buffer.from(payload).toString("base64"),
    signatures: [{ keyid: keyId, sig: Buffer.from(signature).toString("base64") }],
  };
}

/** null: the envelope is not one of a commit. */
export function signatureIn({ payloadType, payload, signatures }: Envelope): CommitSignature | null {
  const [only, ...others] = signatures;
  if (payloadType !== COMMIT_PAYLOAD_TYPE || only === undefined || others.length > 0) return null;
  const bytes = { payload: Buffer.from(payload, "base64"), signature: Buffer.from(only.sig, "base64") };
  return { keyId: only.keyid, ...bytes };
}

/** A signature after its verification. */
export interface JudgedSignature {
  readonly keyId: string | null;
  readonly problem: SignatureProblem | null;
  /** null unless the signature is that of its key, so nothing unverified is ever read. */
  readonly verified: { readonly statement: CommitStatement; readonly key: SigningKeyRecord } | null;
}

/** `found` null: the stored value cannot be read. `key` null: it is not registered. */
export async function judgeSignature(
  found: CommitSignature | null,
  key: SigningKeyRecord | null,
): Promise<JudgedSignature> {
  if (found === null || !isOfKey(found, key)) return rejected(found);
  const part = signedPart(COMMIT_PAYLOAD_TYPE, found);
  const isValid = part !== null && (await isSignature(key.public_key, part.bytes, part.signature));
  return judged(found, key, isValid);
}

/** {@link judgeSignature} in this thread. */
export function judgeSignatureNow(
  found: CommitSignature | null,
  key: SigningKeyRecord | null,
): JudgedSignature {
  if (found === null || !isOfKey(found, key)) return rejected(found);
  const part = signedPart(COMMIT_PAYLOAD_TYPE, found);
  const isValid = part !== null && isTextSignature(key.public_key, part.bytes, part.signature);
  return judged(found, key, isValid);
}

function isOfKey({ keyId }: CommitSignature, key: SigningKeyRecord | null): key is SigningKeyRecord {
  return key !== null && key.key_id === keyId && keyIdOf(key.public_key) === keyId;
}

function rejected(found: CommitSignature | null): JudgedSignature {
  if (found === null) return { keyId: null, problem: "signature_invalid", verified: null };
  return { keyId: found.keyId, problem: "key_unknown", verified: null };
}

function judged(
  { keyId, payload }: CommitSignature,
  key: SigningKeyRecord,
  isValid: boolean,
): JudgedSignature {
  const statement = isValid ? statementIn(payload) : null;
  if (statement === null) return { keyId, problem: "signature_invalid", verified: null };
  const problem = key.purpose === KEY_PURPOSE ? null : "key_purpose";
  return { keyId, problem, verified: { statement, key } };
}

/** Verified bytes of a newer version may hold another statement; null then. */
function statementIn(payload: Uint8Array): CommitStatement | null {
  try {
    const value = JSON.parse(Buffer.from(payload).toString()) as CommitStatement & { v: unknown };
    const { v, at, checkpoints, entries, first, task, tenant } = value;
    const isStatement =
      v === STATEMENT_VERSION &&
      typeof at === "string" &&
      Array.isArray(checkpoints) &&
      Array.isArray(entries) &&
      entries.length > 0 &&
      Number.isSafeInteger(first) &&
      (task === null || typeof task === "string") &&
      typeof tenant === "string";
    return isStatement ? value : null;
  } catch {
    return null;
  }
}

export interface EntryPlace {
  readonly tenant: string;
  /** null: the chain of the tenant. */
  readonly task: string | null;
  readonly seq: number;
}

/** The members of an entry that decide about its signature. They may be anything: a program may have forged the entry. */
export interface SignedFacts {
  readonly at?: unknown;
  /** The key that signs it; undefined: it is unsigned. */
  readonly signed_by?: unknown;
  /** Of an act in the chain of a tenant. */
  readonly action?: unknown;
}

export interface SignedEntry extends EntryPlace {
  readonly hash: string;
  readonly facts: SignedFacts;
  /** The time of the entry before it; undefined: it is the first one. */
  readonly before: unknown;
}

/** A stored signature of a chain, and the number under which it is stored. */
export interface PlacedSignature {
  readonly seq: number;
  readonly judged: JudgedSignature;
}

/**
 * Judges an entry by the first signature at or after it, which must be that of its commit. null: it is signed, and
 * what was signed; `unsigned`: it was never signed, and `isRequired` is false. Changes of keys are always signed.
 */
export function judgeEntry(
  entry: SignedEntry,
  after: PlacedSignature | undefined,
  isRequired: boolean,
): SignatureProblem | "unsigned" | null {
  const { signed_by: signedBy, at, action } = entry.facts;
  const mayBeUnsigned = signedBy === undefined && !isRequired && !isKeyChange(action);
  const absent = mayBeUnsigned ? "unsigned" : "signature_missing";
  if (after === undefined) return absent;
  const { verified, problem, keyId } = after.judged;
  if (verified === null) return signedBy === undefined && after.seq !== entry.seq ? absent : problem;
  const { tenant, task, first, entries } = verified.statement;
  const last = lastEntryOf(verified.statement);
  if (tenant !== entry.tenant || task !== entry.task || last !== after.seq) return "signature_moved";
  if (entry.seq < first) return absent;
  const isSigned = entries[entry.seq - first] === entry.hash && signedBy === keyId;
  if (!isSigned || (entry.seq === last && at !== verified.statement.at)) return "signature_mismatch";
  if (problem !== null) return problem;
  if (isAfterRevocation(verified.key, entry)) return "key_revoked";
  return timeProblem(entry, verified);
}

/**
 * Whether the entry follows the revocation of its key in the chain that has it. There, the order of the commits decides, and no clock: a key signs nothing
 * after its own revocation. `entries` is a member of the records in a store.
 */
function isAfterRevocation({ entries }: SigningKeyRecord, { tenant, task, seq }: EntryPlace): boolean {
  if (tenant !== DEFAULT_TENANT || task !== null) return false;
  const { key_revoke: last, key_revoke_first: revokedIn = last } = (entries ?? {}) as {
    readonly key_revoke?: unknown;
    readonly key_revoke_first?: unknown;
  };
  return typeof revokedIn === "number" && seq > revokedIn;
}

/** A part of one chain. */
export interface JudgedPart {
  readonly of: Omit<EntryPlace, "seq">;
  readonly entries: Iterable<Pick<SignedEntry, "seq" | "hash" | "facts">>;
  /** From the first entry on, in order, with the one after the last entry. */
  readonly signatures: readonly PlacedSignature[];
  /** The time of the entry before the first one; undefined: there is none. */
  readonly before: unknown;
  readonly isRequired: boolean;
}

/** {@link judgeEntry} for the entries of a part, in order. */
export function* judgeEntries({ of, entries, signatures, before, isRequired }: JudgedPart) {
  let at = 0;
  let previous = before;
  for (const entry of entries) {
    const { seq, facts } = entry;
    while (at < signatures.length && signatures[at]!.seq < seq) at += 1;
    const problem = judgeEntry({ ...of, ...entry, before: previous }, signatures[at], isRequired);
    yield { seq, facts, problem };
    previous = facts.at;
  }
}

function isKeyChange(action: unknown): boolean {
  return typeof action === "string" && action.startsWith("key_");
}

/**
 * Compares the times of the entry with those of its key: its own, and the earliest one that its chain allows, which is not much before that of its
 * predecessor, or not before it if others may have the key. So a thief of a key cannot append an entry of an earlier time. The predecessor alone is no proof
 * against the key: its clock may have been wrong.
 */
function timeProblem(
  { facts, before }: SignedEntry,
  { statement: { at }, key }: NonNullable<JudgedSignature["verified"]>,
): SignatureProblem | null {
  const { not_before, not_after, revoked_at, revoked_reason } = key;
  const [signed, written, previous] = [at, facts.at, before].map((time) => Date.parse(String(time)));
  const own = Math.max(signed!, written!);
  const floor = previous! - (countsAtOnce(revoked_reason) ? 0 : LIMITS.clock_skew_ms_max);
  const earliest = Number.isNaN(floor) ? own : Math.max(own, floor);
  if (revoked_at !== null && !(own <= Date.parse(revoked_at))) return "key_revoked";
  if (!(earliest >= Date.parse(not_before))) return "key_expired";
  if (not_after !== null && own > Date.parse(not_after)) return "key_expired";
  const isBehindEnd = [revoked_at, not_after].some((end) => end !== null && earliest > Date.parse(end));
  return isBehindEnd ? "time_contradicted" : null;
}
