/** The signing keys of a bundle, and the verdicts about what they signed. */
import { createHash } from "node:crypto";
import { signedPart } from "../../../integrity/batch-signature.ts";
import { isTextSignature, isUsablePoint, keyIdOf, rawPublicKey } from "../../../integrity/dsse.ts";
import { exactBase64 } from "../../../integrity/merkle/note.ts";
import {
  type ExactJson,
  type ExactObject,
  exactObject,
  exactObjectIn,
  exactTime,
  isCountFrom,
  isExactObject,
  objectIn,
} from "./exact-json.ts";
import type { BundleFindings } from "./findings.ts";

const COMMIT_TYPE = "application/vnd.fleet.commit.v1+json";
const COMMIT_PURPOSE = "commits";
/** The tenant in whose chain the changes of keys are. */
export const KEY_TENANT = "default";
/** A clock may be ahead of another by so much. */
const CLOCK_SKEW_MS = 30_000;
/** Others may have a key that was revoked so. */
const EXPOSED_REASONS: readonly (ExactJson | undefined)[] = ["compromised", "lost"];
/** From the weakest to the strongest. */
const REVOCATION_RANKS: readonly (ExactJson | undefined)[] = ["replaced", "lost", "compromised"];
/** More than any fleet has had. */
const KEYS_MAX = 5_000;
const SPKI_START = "302a300506032b6570032100";
export interface BundleKey {
  readonly key_id: string;
  readonly public_key: string;
  readonly purpose: string;
  readonly not_before: number;
  readonly not_after: number | null;
  readonly revoked_at: number | null;
  /** As it stands in the bundle. */
  readonly record: ExactObject;
}

/** null: the record is not one of an Ed25519 key that can be used. */
export function bundleKeyOf(record: ExactJson): BundleKey | null {
  if (!isExactObject(record)) return null;
  const { key_id, algorithm, public_key, purpose, not_before, not_after, revoked_at } = record;
  if (typeof key_id !== "string" || typeof public_key !== "string" || typeof purpose !== "string")
    return null;
  const der = exactBase64(public_key);
  if (algorithm !== "ed25519" || der?.length !== 44 || !der.toString("hex").startsWith(SPKI_START))
    return null;
  if (keyIdOf(public_key) !== key_id || !isUsablePoint(rawPublicKey(public_key))) return null;
  const [from, until, revoked] = [not_before, not_after, revoked_at].map(exactTime);
  if (from == null || (not_after !== null && until == null) || (revoked_at !== null && revoked == null))
    return null;
  const times = { not_before: from, not_after: until ?? null, revoked_at: revoked ?? null };
  return { key_id, public_key, purpose, ...times, record };
}

/** The revocation of a key that has valid signatures, as the bundle states it. */
export interface BundleRevocation {
  readonly key_id: string;
  /** null: the auditor alone knows of it. */
  readonly revoked_at: string | null;
  readonly reason: string | null;
}

/** The words of both verifiers. */
export function revocationText({ revoked_at, reason }: BundleRevocation): string {
  if (revoked_at === null) return "REVOKED, as you state, and the bundle does not";
  return `REVOKED at ${revoked_at} (${reason ?? "no reason"})`;
}

interface JudgedEnvelope {
  readonly keyId: string | null;
  readonly problem: string | null;
  /** null unless the signature is that of its key. */
  readonly statement: ExactObject | null;
}

/** An entry of a chain whose signature is judged. */
export interface ChainEntry {
  readonly tenant: string;
  /** null: the chain of the tenant. */
  readonly task: string | null;
  readonly seq: number;
  /** Of its text. An entry may wait long for the signature of its commit, so it is without the text. */
  readonly hash: string;
  readonly facts: ExactObject;
  /** The time of the entry before it; undefined: it is the first one, or not known. */
  readonly before: ExactJson | undefined;
}

export const textHash = (text: string): string => createHash("sha256").update(text).digest("hex");

export class BundleKeys {
  readonly #keys = new Map<string, BundleKey>();
  /** The keys with valid signatures in the bundle. */
  readonly used = new Set<string>();
  /** The keys that the auditor knows as revoked. */
  readonly #knownRevoked: ReadonlySet<string>;
  /** The number of the entry that revoked a key, in the chain of its tenant. */
  readonly #revokedIn = new Map<string, number>();
  /** The strongest reason that the valid changes of a key state. A fleet of an earlier version may have recorded a weaker one after it. */
  readonly #reasons = new Map<string, ExactJson>();
  /** Whether the changes of the keys are in the bundle. */
  areProved = false;
  /** Whether the fleet states that all its entries are signed. */
  isRequired = false;

  constructor(knownRevoked: ReadonlySet<string> = new Set()) {
    this.#knownRevoked = knownRevoked;
  }

  /** A thief may have it: what it signed proves nothing about the time. */
  isRevoked(id: string): boolean {
    return this.#knownRevoked.has(id) || this.#keys.get(id)?.revoked_at != null;
  }

  /** The first entry counts for the order: a later one can only name an earlier time or another reason. */
  noteRevocation(id: string, seq: number, reason: ExactJson | undefined): void {
    if (!this.#revokedIn.has(id)) this.#revokedIn.set(id, seq);
    if (reason !== undefined && rankOf(reason) > rankOf(this.#reasons.get(id))) this.#reasons.set(id, reason);
  }

  #reasonOf({ key_id, revoked_at, record }: BundleKey): ExactJson | undefined {
    const stated = this.#reasons.get(key_id);
    const { revoked_reason: recorded } = record;
    return revoked_at !== null && rankOf(stated) > rankOf(recorded) ? stated : recorded;
  }

  /** In the chain that has the revocation, the order of the entries decides, and no clock. */
  #isAfterRevocation(id: string, { tenant, task, seq }: ChainEntry): boolean {
    return tenant === KEY_TENANT && task === null && seq > (this.#revokedIn.get(id) ?? seq);
  }

  /** Of the keys with valid signatures. */
  get revocations(): readonly BundleRevocation[] {
    const textOr = (value: ExactJson | undefined) => (typeof value === "string" ? value : null);
    return [...this.used]
      .filter((id) => this.isRevoked(id))
      .sort()
      .map((key_id) => {
        const key = this.#keys.get(key_id)!;
        return { key_id, revoked_at: textOr(key.record.revoked_at), reason: textOr(this.#reasonOf(key)) };
      });
  }

  get all(): readonly BundleKey[] {
    return [...this.#keys.values()];
  }

  get count(): number {
    return this.#keys.size;
  }

  add(key: BundleKey): void {
    this.#keys.set(key.key_id, key);
  }

  find(id: string): BundleKey | undefined {
    return this.#keys.get(id);
  }

  judgeEnvelope(envelope: ExactJson | undefined): JudgedEnvelope {
    const invalid = (keyId: string | null): JudgedEnvelope => ({
      ...{ keyId, problem: "signature_invalid", statement: null },
    });
    if (!isExactObject(envelope) || !Array.isArray(envelope.signatures)) return invalid(null);
    const [only, ...others] = envelope.signatures as readonly ExactJson[];
    if (envelope.payloadType !== COMMIT_TYPE || !isExactObject(only) || others.length > 0)
      return invalid(null);
    const { keyid: keyId, sig } = only;
    const { payload: text } = envelope;
    if (typeof keyId !== "string" || typeof sig !== "string" || typeof text !== "string")
      return invalid(null);
    const key = this.#keys.get(keyId);
    if (key === undefined) return { keyId, problem: "key_unknown", statement: null };
    const [payload, signature] = [exactBase64(text), exactBase64(sig)];
    if (payload === null || signature === null) return invalid(keyId);
    const part = signedPart(COMMIT_TYPE, { payload, signature });
    if (part === null || !isTextSignature(key.public_key, part.bytes, part.signature)) return invalid(keyId);
    const statement = exactObjectIn(payload);
    if (statement === null || !isStatement(statement)) return invalid(keyId);
    return { keyId, problem: key.purpose === COMMIT_PURPOSE ? null : "key_purpose", statement };
  }

  /**
   * What is wrong with an entry whose commit ends with the signed entry `last`; `unsigned`: it was never signed.
   * null: it is signed.
   */
  judgeEntry(
    entry: ChainEntry,
    after: { readonly seq: number; readonly judged: JudgedEnvelope } | null,
    isRequired: boolean,
  ): string | null {
    const { signed_by: signedBy, at, action } = entry.facts;
    const isKeyChange = typeof action === "string" && action.startsWith("key_");
    const absent = signedBy === undefined && !isRequired && !isKeyChange ? "unsigned" : "signature_missing";
    if (after === null) return absent;
    const { keyId, problem, statement } = after.judged;
    if (statement === null) return signedBy === undefined && after.seq !== entry.seq ? absent : problem;
    const [first, entries] = [statement.first as number, statement.entries as readonly ExactJson[]];
    const last = first + entries.length - 1;
    const isOfChain = statement.tenant === entry.tenant && statement.task === entry.task;
    if (!isOfChain || last !== after.seq) return "signature_moved";
    if (entry.seq < first) return absent;
    const isSigned = entries[entry.seq - first] === entry.hash && signedBy === keyId;
    if (!isSigned || (entry.seq === last && at !== statement.at)) return "signature_mismatch";
    const end = this.#isAfterRevocation(String(keyId), entry) ? "key_revoked" : null;
    const found = problem ?? end ?? this.#timeProblem(this.#keys.get(String(keyId))!, entry, statement);
    if (found === null) this.used.add(String(keyId));
    return found;
  }

  /**
   * Compares the times of the entry with those of its key: its own, and the earliest one that its chain allows. The entry before it alone is no proof against
   * the key: its clock may have been wrong.
   */
  #timeProblem(key: BundleKey, { facts, before }: ChainEntry, { at }: ExactObject): string | null {
    const [signed, written, previous] = [at, facts.at, before].map(exactTime);
    const allowance = EXPOSED_REASONS.includes(this.#reasonOf(key)) ? 0 : CLOCK_SKEW_MS;
    const floor = previous == null ? Number.NEGATIVE_INFINITY : previous - allowance;
    const own = signed == null || written == null ? null : Math.max(signed, written);
    const { not_before, not_after, revoked_at } = key;
    if (revoked_at !== null && (own === null || own > revoked_at)) return "key_revoked";
    if (own === null || Math.max(own, floor) < not_before) return "key_expired";
    if (not_after !== null && own > not_after) return "key_expired";
    return [revoked_at, not_after].some((end) => end !== null && floor > end) ? "time_contradicted" : null;
  }
}

/** -1: it is absent, or no word of a fleet. */
const rankOf = (reason: ExactJson | undefined): number => REVOCATION_RANKS.indexOf(reason);

function isStatement({ v, at, checkpoints, entries, first, task, tenant }: ExactObject): boolean {
  return (
    v === 1 &&
    typeof at === "string" &&
    Array.isArray(checkpoints) &&
    Array.isArray(entries) &&
    entries.length > 0 &&
    isCountFrom(1, first) &&
    (task === null || typeof task === "string") &&
    typeof tenant === "string"
  );
}

/** What the changes of a key state about it. */
type Stated = Record<string, ExactJson>;

const STATED_BY: Readonly<Record<string, readonly (readonly [member: string, stated: string])[]>> = {
  key_add: ["owner", "purpose", "not_before"].map((name) => [name, name] as const),
  key_retire: [["not_after", "not_after"]],
  key_revoke: [
    ["revoked_at", "revoked_at"],
    ["revoked_reason", "reason"],
  ],
  key_rotate: [],
};

/** Reads and verifies keyset.json. Returns the keys that can be used. */
export interface KeysetPlace {
  readonly findings: BundleFindings;
  /** The tenant whose chain has the changes. */
  readonly home: string;
  /** The tenant of the bundle. */
  readonly tenant: string;
  readonly knownRevoked: ReadonlySet<string>;
}

export function keysIn(
  keyset: ExactObject,
  { findings, home, tenant, knownRevoked }: KeysetPlace,
): BundleKeys {
  const keys = new BundleKeys(knownRevoked);
  keys.isRequired = keyset.signatures_required === true;
  const { keys: records, changes } = keyset;
  if (!Array.isArray(records) || (changes !== null && !Array.isArray(changes))) {
    findings.add("keyset", "keyset.json");
    return keys;
  }
  for (const [i, record] of (records as readonly ExactJson[]).entries()) {
    const key = bundleKeyOf(record);
    if (key === null || keys.find(key.key_id) !== undefined) findings.add("key_invalid", `keyset.json/${i}`);
    else if (keys.count === KEYS_MAX) {
      findings.add("limit", `keyset.json/${i}`);
      break;
    } else keys.add(key);
  }
  for (const { key_id, revoked_at } of keys.all)
    if (revoked_at === null && knownRevoked.has(key_id)) findings.add("key_revoked", `key:${key_id}`);
  if (changes === null) {
    if (tenant === home) findings.add("keyset", "keyset.json");
    return keys;
  }
  keys.areProved = true;
  judgeChanges(changes as readonly ExactJson[], keys, { findings, home });
  return keys;
}

function judgeChanges(
  changes: readonly ExactJson[],
  keys: BundleKeys,
  { findings, home }: Pick<KeysetPlace, "findings" | "home">,
): void {
  const stated = new Map<string, Stated>();
  let last = 0;
  let before: ExactJson | undefined;
  for (const change of changes) {
    const seq = isExactObject(change) && isCountFrom(last + 1, change.seq) ? change.seq : null;
    const entry = seq === null ? null : changeAt(change as ExactObject, { seq, home, before });
    if (seq === null || entry === null) {
      findings.add("keyset", "keyset.json");
      return;
    }
    last = seq;
    before = entry.facts.at;
    const judged = { seq: entry.end, judged: keys.judgeEnvelope((change as ExactObject).signature) };
    const problem = keys.judgeEntry(entry, judged, true);
    if (problem !== null) findings.add(problem, `keyset.json/${seq}`);
    else if (!noteChange(stated, entry.facts)) findings.add("keyset", `keyset.json/${seq}`);
    else if (entry.facts.action === "key_revoke") {
      const { key_id, reason } = objectIn(entry.facts, "subject");
      keys.noteRevocation(String(key_id), seq, reason);
    }
  }
  for (const { key_id, record } of keys.all)
    if (!isAsStated(record, stated.get(key_id))) findings.add("key_unproved", `key:${key_id}`);
  for (const key_id of stated.keys())
    if (keys.find(key_id) === undefined) findings.add("key_unproved", `key:${key_id}`);
}

function changeAt(
  { entry: text, end }: ExactObject,
  {
    seq,
    home,
    before,
  }: { readonly seq: number; readonly home: string; readonly before: ExactJson | undefined },
): (ChainEntry & { readonly end: number }) | null {
  const facts = typeof text === "string" ? exactObject(text) : null;
  if (facts === null || typeof text !== "string" || !isCountFrom(seq, end)) return null;
  const isChange = typeof facts.action === "string" && Object.hasOwn(STATED_BY, facts.action);
  if (!isChange || typeof objectIn(facts, "subject").key_id !== "string") return null;
  if (facts.seq !== seq || facts.tenant !== home || "task" in facts) return null;
  return { tenant: home, task: null, seq, hash: textHash(text), facts, before, end };
}

/**
 * False: it moves a revocation to a later time, or to a weaker reason, which no fleet does. Those of an earlier version stated a weaker reason with an earlier
 * time: that is accepted, and weakens no verdict, because the strongest reason counts.
 */
function noteChange(stated: Map<string, Stated>, facts: ExactObject): boolean {
  const subject = objectIn(facts, "subject");
  const id = String(subject.key_id);
  const known = stated.get(id) ?? {};
  if (facts.action === "key_revoke" && known.revoked_at !== undefined) {
    const [earlier, later] = [exactTime(known.revoked_at), exactTime(subject.revoked_at)];
    if (earlier === null || later === null || later > earlier) return false;
    const rank = rankOf(subject.reason);
    if (rank < rankOf(known.revoked_reason) && (rank < 0 || later === earlier)) return false;
  }
  if (facts.action === "key_add") known.replaces = subject.replaces ?? null;
  for (const [member, name] of STATED_BY[String(facts.action)] ?? []) known[member] = subject[name] ?? null;
  stated.set(id, known);
  return true;
}

function isAsStated(record: ExactObject, stated: Stated | undefined): boolean {
  const names = ["owner", "purpose", "not_before", "replaces", "not_after", "revoked_at", "revoked_reason"];
  if (stated?.owner == null) return false;
  return names.every((name) => (record[name] ?? null) === (stated[name] ?? null));
}
