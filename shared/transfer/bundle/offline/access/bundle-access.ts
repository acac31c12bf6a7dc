/** Verifies access.jsonl: the chain of blocks of the access log with its signatures, and what the chain of the tenant states of it. */
import { type BundleKeys, type ChainEntry, textHash } from "../bundle-keys.ts";
import {
  type ExactJson,
  type ExactObject,
  exactObject,
  exactObjectIn,
  isCountFrom,
  isExactObject,
  isHexHash,
  objectIn,
} from "../exact-json.ts";
import type { BundleFindings } from "../findings.ts";

/** The chain in the statements of signatures. No task has this name. */
const ACCESS_NAME = "=access";

export interface AccessPlace {
  readonly seq: number;
  readonly hash: string;
}

const ACCESS_BEGIN: AccessPlace = { seq: 0, hash: "0".repeat(64) };

export interface AccessParts {
  readonly keys: BundleKeys;
  readonly findings: BundleFindings;
  readonly tenant: string;
  /** Whether the keys come from the auditor. */
  readonly mustProve: boolean;
}

export class BundleAccess {
  readonly counts = {
    access_blocks: 0,
    access_records: 0,
    access_lost: 0,
    access_open: 0,
    access_statements: 0,
  };
  readonly #parts: AccessParts;
  #isBegun = false;
  /** The last block that retention has removed. */
  #start = ACCESS_BEGIN;
  #head = ACCESS_BEGIN;
  #last = ACCESS_BEGIN;
  /** As the newest block that states it has it. */
  #pruned = ACCESS_BEGIN;
  /** The hashes of blocks as the chain of the tenant states them, by their numbers. */
  readonly #stated = new Map<number, string>();
  readonly #sessions = new Map<string, ExactJson | undefined>();
  #statement: { readonly seq: number; readonly at: ExactJson | undefined } = { seq: 0, at: undefined };
  /** The blocks of the commit that is read: of a fleet without keys all, so each without its entries. */
  #commit: ChainEntry[] = [];
  #before: ExactJson | undefined;
  #hasSigned = false;
  /** The last block with a valid signature by a key that is not revoked: it has the hashes of all before it. */
  #proved = 0;

  constructor(parts: AccessParts) {
    this.#parts = parts;
  }

  /** The fault at which the reading ends. */
  add(bytes: Buffer | null): string | null {
    const line = bytes === null ? null : exactObjectIn(bytes);
    if (line === null) return "line";
    if (line.kind === "log") return this.#isBegun ? "order" : this.#begin(line);
    if (!this.#isBegun) return "order";
    if (line.kind === "block") return this.#addBlock(line);
    if (line.kind !== "statement") return "line";
    return this.counts.access_blocks > 0 ? "order" : this.#addStatement(line);
  }

  /** The last block. */
  get last(): AccessPlace {
    return this.#last;
  }

  /** After the last line. */
  end(): string | null {
    const { findings, mustProve } = this.#parts;
    if (!this.#isBegun || !isSamePlace(this.#last, this.#head)) return "truncated";
    this.#close(null);
    for (const [seq, hash] of this.#stated)
      if (seq > this.#head.seq || (seq === this.#start.seq && hash !== this.#start.hash))
        findings.add("access_contradicted", `${ACCESS_NAME}/${seq}`);
    if (!isSamePlace(this.#pruned, this.#start))
      findings.add("access_cut", `${ACCESS_NAME}/${this.#start.seq + 1}`);
    if ((mustProve || this.#hasSigned) && this.#proved < this.#head.seq)
      findings.add("unproved", `${ACCESS_NAME}/${this.#proved + 1}`);
    this.counts.access_open = [...this.#sessions.values()].filter((state) => state === "open").length;
    return null;
  }

  #begin({ start, head }: ExactObject): string | null {
    const [from, to] = [placeOf(start), placeOf(head)];
    if (from === null || to === null || from.seq > to.seq) return "line";
    [this.#isBegun, this.#start, this.#last, this.#head] = [true, from, from, to];
    this.#proved = from.seq;
    return null;
  }

  #addStatement({ seq, end, entry: text, signature }: ExactObject): string | null {
    const facts = typeof text === "string" ? exactObject(text) : null;
    const { seq: last, at } = this.#statement;
    if (facts === null || typeof text !== "string" || !isCountFrom(last + 1, seq) || !isCountFrom(seq, end))
      return "line";
    const { keys, findings, tenant } = this.#parts;
    const { block, hash } = objectIn(facts, "subject");
    const isStatement = facts.action === "access_log" && facts.tenant === tenant && facts.seq === seq;
    if (!isStatement || "task" in facts || !isCountFrom(1, block) || !isHexHash(hash)) return "line";
    const entry = { tenant, task: null, seq, hash: textHash(text), facts, before: at };
    const after = signature === undefined ? null : { seq: end, judged: keys.judgeEnvelope(signature) };
    const problem = keys.judgeEntry(entry, after, keys.isRequired);
    if (problem !== null && problem !== "unsigned")
      findings.add(problem, `access.jsonl:${this.counts.access_statements + 2}`);
    this.#statement = { seq, at: facts.at };
    this.#stated.set(block, hash);
    this.counts.access_statements += 1;
    return null;
  }

  #addBlock({ seq, entry: text, signature }: ExactObject): string | null {
    const facts = typeof text === "string" ? exactObject(text) : null;
    const { keys, findings, tenant } = this.#parts;
    if (facts === null || typeof text !== "string" || !Array.isArray(facts.entries)) return "line";
    // A number that no program can state exactly.
    if (!Number.isSafeInteger(this.counts.access_lost + lostIn(facts))) return "line";
    const isNext = seq === this.#last.seq + 1 && facts.seq === seq && facts.prev === this.#last.hash;
    if (!isNext || facts.tenant !== tenant) return "chain";
    if (this.#last.seq === this.#head.seq) return "head";
    const hash = textHash(text);
    this.#last = { seq: seq as number, hash };
    const stated = this.#stated.get(this.#last.seq);
    if (stated !== undefined && stated !== hash) findings.add("access_contradicted", this.#at());
    this.#note(facts);
    const chained = { tenant, task: ACCESS_NAME, seq: this.#last.seq, hash, before: this.#before };
    this.#before = facts.at;
    this.#commit.push({ ...chained, facts: judgedFacts(facts) });
    if (signature !== undefined) this.#close({ seq: this.#last.seq, judged: keys.judgeEnvelope(signature) });
    return null;
  }

  #note(facts: ExactObject): void {
    const { entries, pruned, session } = facts;
    this.counts.access_blocks += 1;
    this.counts.access_records += (entries as readonly ExactJson[]).length;
    this.counts.access_lost += lostIn(facts);
    if (isExactObject(session) && typeof session.id === "string")
      this.#sessions.set(session.id, session.state);
    const place = isExactObject(pruned) ? placeOf(pruned) : null;
    if (place !== null) this.#pruned = place;
  }

  #at(seq = this.#last.seq): string {
    return `${ACCESS_NAME}/${seq}`;
  }

  #close(after: Parameters<BundleKeys["judgeEntry"]>[1]): void {
    const { keys, findings } = this.#parts;
    for (const entry of this.#commit) {
      const problem = keys.judgeEntry(entry, after, keys.isRequired);
      const { signed_by: signedBy } = entry.facts;
      if (problem !== null && problem !== "unsigned") findings.add(problem, this.#at(entry.seq));
      if (problem === null && !keys.isRevoked(String(signedBy))) this.#proved = entry.seq;
      if (signedBy !== undefined) this.#hasSigned = true;
    }
    this.#commit = [];
  }
}

const lostIn = ({ lost }: ExactObject): number => (isCountFrom(1, lost) ? lost : 0);

/** What the verdict about a signature needs. */
function judgedFacts(facts: ExactObject): ExactObject {
  const names = ["action", "at", "signed_by"].filter((name) => facts[name] !== undefined);
  return Object.fromEntries(names.map((name) => [name, facts[name]!]));
}

const isSamePlace = (a: AccessPlace, b: AccessPlace): boolean => a.seq === b.seq && a.hash === b.hash;

/** The place before the first block for null. null: it is none. */
function placeOf(value: ExactJson | undefined): AccessPlace | null {
  if (value === null) return ACCESS_BEGIN;
  if (!isExactObject(value)) return null;
  const { seq, hash } = value;
  return isCountFrom(1, seq) && isHexHash(hash) ? { seq, hash } : null;
}
