/** Verifies each exported entry beside its line of proofs.jsonl: its signature, and its place in the log. */
import { leafHash } from "../../../integrity/merkle/hashes.ts";
import type { LogCheckpoint } from "../../../integrity/merkle/note.ts";
import { isIncluded } from "../../../integrity/merkle/proofs.ts";
import { type BundleAnchors, LATE_MS } from "./bundle-anchors.ts";
import { type BundleKeys, type ChainEntry, textHash } from "./bundle-keys.ts";
import type { LineEntry } from "./bundle-lines.ts";
import { hashesOf } from "./bundle-log.ts";
import {
  type ExactJson,
  type ExactObject,
  exactObjectIn,
  exactTime,
  isCountFrom,
  isExactObject,
  isHexHash,
} from "./exact-json.ts";
import type { BundleFindings } from "./findings.ts";

/** The log of a working fleet has an entry after seconds. */
const LOG_DELAY_MS = 600_000;
const PENDING = ["not_in_log", "damaged", "unsigned_log"] as const;

interface OpenEntry {
  readonly entry: ChainEntry;
  readonly isIncluded: boolean;
}

export interface EntryParts {
  readonly keys: BundleKeys;
  /** null: the bundle has no signed checkpoint of the log. */
  readonly log: LogCheckpoint | null;
  readonly anchors: BundleAnchors;
  readonly proofs: Iterator<Buffer | null>;
  readonly findings: BundleFindings;
  /** Whether the keys come from the auditor: each entry must then be proved by one. */
  readonly mustProve: boolean;
  /** When the export was made, in milliseconds. */
  readonly exportedAt: number;
}

export class BundleEntries {
  readonly counts = { signed: 0, unsigned: 0, signatures_unread: 0, included: 0, pending: 0 };
  readonly #parts: EntryParts;
  #open: OpenEntry[] = [];
  #before: ExactJson | undefined;
  #isRequired = false;
  /** The entries of the task that are not in the log yet: those at its end. */
  #waiting: string[] = [];
  /** Whether an entry of the task before says that it is signed. */
  #hasSigned = false;
  /** The time of the newest entry. */
  newest = Number.NEGATIVE_INFINITY;
  #newestOfTask = Number.NEGATIVE_INFINITY;
  #proofLine = 0;
  #areProofsRead = false;

  constructor(parts: EntryParts) {
    this.#parts = parts;
  }

  begin(isRequired: boolean, task: string): void {
    if (isRequired !== this.#parts.keys.isRequired) this.#parts.findings.add("requirement", task);
    this.#hasSigned = false;
    this.#newestOfTask = Number.NEGATIVE_INFINITY;
    [this.#open, this.#before, this.#isRequired, this.#waiting] = [[], undefined, isRequired, []];
  }

  add(entry: LineEntry): void {
    const { tenant, task, seq, text, facts, line } = entry;
    const { keys, findings } = this.#parts;
    const isProved = this.#prove(entry);
    const chained = { tenant, task, seq, hash: textHash(text), facts, before: this.#before };
    this.#before = facts.at;
    const written = exactTime(facts.at) ?? this.#newestOfTask;
    if (written < this.#newestOfTask - LATE_MS) findings.add("time_order", `${task}/${seq}`);
    this.#newestOfTask = Math.max(this.#newestOfTask, written);
    this.newest = Math.max(this.newest, written);
    this.#compareKey(line.signing_key);
    if (line.signature_unread === true && !this.#isRequired) {
      this.counts.signatures_unread += 1;
      findings.add("signature_unread", `${task}/${seq}`);
      return;
    }
    this.#open.push({ entry: chained, isIncluded: isProved });
    if (line.signature === undefined) return;
    this.#close({ seq, judged: keys.judgeEnvelope(line.signature) });
  }

  endTask(): void {
    this.#close(null);
  }

  /** After the last entry of the file. */
  end(): void {
    if (this.#areProofsRead) return;
    const { done } = this.#parts.proofs.next();
    if (done !== true) this.#parts.findings.add("proof_extra", `proofs.jsonl:${this.#proofLine + 1}`);
  }

  #close(after: Parameters<BundleKeys["judgeEntry"]>[1]): void {
    const { keys, findings, mustProve } = this.#parts;
    for (const { entry, isIncluded: isProved } of this.#open) {
      const problem = keys.judgeEntry(entry, after, this.#isRequired);
      const at = `${entry.task}/${entry.seq}`;
      const { signed_by: signedBy } = entry.facts;
      if (problem === null) {
        this.counts.signed += 1;
        if (!isProved && keys.isRevoked(String(signedBy))) findings.add("unproved", at);
      } else if (problem !== "unsigned") findings.add(problem, at);
      else {
        this.counts.unsigned += 1;
        if ((mustProve || this.#hasSigned) && !isProved) findings.add("unproved", at);
      }
      if (signedBy !== undefined) this.#hasSigned = true;
    }
    this.#open = [];
  }

  /** Whether the entry is in the log, by the next line of the proofs. */
  #prove({ task, seq, text, facts }: LineEntry): boolean {
    const { findings, log } = this.#parts;
    const at = `${task}/${seq}`;
    const line = this.#nextProof(task, seq);
    if (line === null) return false;
    const { pending, index, proof } = line;
    if (pending !== undefined) {
      this.counts.pending += 1;
      if (!(PENDING as readonly ExactJson[]).includes(pending)) findings.add("proof_invalid", at);
      else if ((pending === "unsigned_log") !== (log === null)) findings.add("proof_missing", at);
      if (pending === "damaged") findings.add("proof_damaged", at);
      if (pending !== "not_in_log") return false;
      this.#waiting.push(at);
      const written = exactTime(facts.at);
      if (written === null || written < this.#parts.exportedAt - LOG_DELAY_MS)
        findings.add("proof_missing", at);
      return false;
    }
    for (const earlier of this.#waiting.splice(0)) findings.add("proof_missing", earlier);
    if (log === null) findings.add("log_missing", "log.note");
    if (log === null || !isCountFrom(0, index) || !isInLog({ index, text, proof }, log)) {
      findings.add("proof_invalid", at);
      return false;
    }
    this.counts.included += 1;
    const fault = this.#parts.anchors.judge(index, facts.at);
    if (fault !== null) findings.add(fault, at);
    return true;
  }

  #nextProof(task: string, seq: number): ExactObject | null {
    if (this.#areProofsRead) return null;
    const { done, value } = this.#parts.proofs.next();
    this.#proofLine += 1;
    const line = done === true || value === null ? null : exactObjectIn(value as Buffer);
    if (line !== null && line.task === task && line.seq === seq) return line;
    this.#areProofsRead = true;
    const { findings } = this.#parts;
    if (done === true) findings.add("proof_missing", `${task}/${seq}`);
    else findings.add("proof_order", `proofs.jsonl:${this.#proofLine}`);
    return null;
  }

  /** A key in a line of the export is that of the keyset, which may have ended since. */
  #compareKey(record: ExactJson | undefined): void {
    if (record === undefined) return;
    const { keys, findings } = this.#parts;
    const id = isExactObject(record) && isHexHash(record.key_id) ? record.key_id : "";
    const known = keys.find(id);
    if (!isExactObject(record) || known === undefined || !isSameKey(record, known.record))
      findings.add("key_conflict", `key:${id}`);
  }
}

function isInLog(
  {
    index,
    text,
    proof,
  }: { readonly index: number; readonly text: string; readonly proof: ExactJson | undefined },
  log: LogCheckpoint,
): boolean {
  const hashes = hashesOf(proof);
  if (hashes === null) return false;
  return isIncluded({ index, hash: leafHash(text) }, log, hashes);
}

function isSameKey(early: ExactObject, late: ExactObject): boolean {
  const fixed = ["algorithm", "public_key", "purpose", "owner", "not_before", "replaces"];
  const ends = ["not_after", "revoked_at"];
  return (
    fixed.every((name) => early[name] === late[name]) &&
    ends.every((name) => early[name] === null || early[name] === late[name])
  );
}
