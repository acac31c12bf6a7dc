/**
 * Verifies the lines of one exported task, in memory that grows only with the ids of its handoffs and the hashes of its versions: the hash chain of the trail, the hash of
 * each version against the entry that made it, and the head against the fold of the trail.
 */
import { createHash, type Hash } from "node:crypto";
import { createChainVerifier } from "../integrity/chain.ts";
import { restoresOrigin } from "../integrity/origin.ts";
import { AUDIT_VERSION, type AuditEntry, replayEntry } from "../lifecycle/replay.ts";
import { openHandoffOf, stateOf, type TaskRecord } from "../lifecycle/task.ts";
import { MissingFact } from "../lifecycle/trail/facts.ts";
import type { Checkpoint, UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import type { ExportLine, ExportLineOf } from "../protocol/export-lines.ts";
import type { Task } from "../protocol/task.ts";
import { EsignatureVerifier } from "./esignature-verifier.ts";
import { exportedHash } from "./export-line.ts";
import { RecordVerifier } from "./record-verifier.ts";
import { SignatureVerifier } from "./signature-verifier.ts";

/** The version that an audit entry made. */
export interface AuditedVersion {
  readonly id: string;
  readonly version: number;
  readonly hash: string;
}

/** null: the entry made no version. */
export function versionOf(entry: AuditEntry): AuditedVersion | null {
  const { checkpoint_id: id, version, new_hash: hash } = entry;
  if (typeof id !== "string" || typeof version !== "number" || typeof hash !== "string") return null;
  return { id, version, hash };
}

const TASK_COUNTS = ["entries", "versions", "lost", "records", "records_lost", "handoffs"] as const;
type TaskCount = (typeof TASK_COUNTS)[number];

export interface FileContents {
  /** false: the format of the file has no records of missions. */
  readonly hasRecords: boolean;
  /** false: the format of the file has no acts about passkeys. */
  readonly hasPasskeyActs: boolean;
  /** Whether the fleet states that all its entries are signed. */
  readonly isSigned: boolean;
}

export class TaskVerifier {
  readonly task: Task;
  readonly #chain = createChainVerifier();
  readonly #digest: Hash = createHash("sha256");
  readonly #handoffsBegun = new Set<string>();
  readonly #handoffsSeen = new Set<string>();
  readonly #counts = { entries: 0, versions: 0, lost: 0, handoffs: 0 };
  readonly #records = new RecordVerifier();
  readonly #hasRecords: boolean;
  readonly #signatures: SignatureVerifier;
  readonly #esignatures: EsignatureVerifier;
  /** The versions among the lost ones that retention removed. */
  removed = 0;
  /** The checkpoints whose removal an entry records. One after the end of the trail is not in the file. */
  readonly #removals = new Map<number, string>();
  #created = 0;
  /** The version that the last entry made, until its line is read. */
  #due: AuditedVersion | null = null;
  #dueSeq = 0;
  /** null: an earlier version wrote an entry, which lacks a fact. */
  #fold: { readonly task: TaskRecord | null } | null = { task: null };

  constructor(task: Task, { hasRecords, hasPasskeyActs, isSigned }: FileContents) {
    this.task = task;
    this.#hasRecords = hasRecords;
    this.#signatures = new SignatureVerifier(isSigned);
    this.#esignatures = new EsignatureVerifier(task, hasPasskeyActs);
  }

  get signatures(): SignatureVerifier["counts"] {
    return this.#signatures.counts;
  }

  get signingKeys(): Iterable<string> {
    return this.#signatures.keyIds;
  }

  /** The electronic signatures, in the order of their entries. */
  get esignatures(): EsignatureVerifier["blocks"] {
    return this.#esignatures.blocks;
  }

  get counts(): Readonly<Record<TaskCount, number>> {
    return { ...this.#counts, ...this.#records.counts };
  }

  /** Whether the trail states records of a mission that are not in the file. */
  get lacksRecords(): boolean {
    return this.#records.missing !== null;
  }

  /** Adds the bytes of a line to the digest of the task. */
  digest(bytes: Uint8Array): void {
    this.#digest.update(bytes).update("\n");
  }

  /** Returns the problem; null: none. */
  add(line: ExportLine): string | null {
    switch (line.kind) {
      case "audit":
        return this.#addEntry(line);
      case "checkpoint":
        return this.#addVersion(line);
      case "lost":
        return this.#addLost(line);
      case "record":
      case "record_lost":
        return this.#addRecord(line);
      case "handoff":
        return this.#addHandoff(line);
      case "task_end":
        return this.#end(line);
      default:
        return `expected the rest of task ${this.task.task_id}, and not a line of kind ${line.kind}`;
    }
  }

  #addEntry(line: ExportLineOf<"audit">): string | null {
    const { seq, entry: text } = line;
    if (this.#due !== null) return this.#missingVersion();
    if (this.#counts.handoffs > 0) return "an audit entry stands after the handoffs";
    const { records, records_lost } = this.#records.counts;
    if (records + records_lost > 0) return "an audit entry stands after the records";
    if (seq > this.task.audit_seq) return `the trail ends with entry ${this.task.audit_seq}`;
    this.#chain.add({ seq, entry: text });
    const [problem] = this.#chain.reached().problems;
    if (problem !== undefined)
      return `the audit chain is broken at entry ${problem.seq} (${problem.problem})`;
    const entry = JSON.parse(text) as AuditEntry;
    if (entry.task !== this.task.task_id || entry.tenant !== this.task.tenant) {
      return "the entry is of another task or tenant";
    }
    this.#counts.entries += 1;
    this.#records.addEntry(entry);
    this.#signatures.add(line, entry);
    this.#esignatures.add(line, entry);
    const removed = this.#removals.get(seq);
    if (removed !== undefined && (entry.op !== "remove" || entry.checkpoint_id !== removed)) {
      return `entry ${seq} does not record the removal of checkpoint ${removed}`;
    }
    if (entry.op === "handoff" && typeof entry.handoff_id === "string")
      this.#handoffsBegun.add(entry.handoff_id);
    this.#due = versionOf(entry);
    this.#dueSeq = seq;
    if (this.#due?.version === 1 || entry.op === "import_removed") this.#created += 1;
    return this.#foldEntry(entry);
  }

  #foldEntry(entry: AuditEntry): string | null {
    if (this.#fold === null) return null;
    if (entry.v !== AUDIT_VERSION) {
      this.#fold = null;
      return null;
    }
    try {
      const task = replayEntry(this.#fold.task, entry);
      this.#fold = { task };
      if (task.fence === entry.fence) return null;
      return `entry ${entry.seq} has fence ${entry.fence}, and the trail leads to ${task.fence}`;
    } catch (error) {
      if (!(error instanceof MissingFact)) return `entry ${entry.seq} cannot follow the entries before it`;
      this.#fold = null;
      return null;
    }
  }

  #addVersion({ checkpoint: value, hash }: ExportLineOf<"checkpoint">): string | null {
    const due = this.#due;
    if (due === null) return "no audit entry made this version";
    const { metadata, compliance } = value as {
      readonly metadata?: Partial<Checkpoint["metadata"]>;
      readonly compliance?: Record<string, unknown>;
    };
    if (metadata?.checkpoint_id !== due.id || metadata.version !== due.version) {
      return `expected version ${due.version} of checkpoint ${due.id}, which entry ${this.#dueSeq} made`;
    }
    if (compliance === undefined || "hash" in compliance || "signature" in compliance) {
      return "the checkpoint must be without its hash and signature";
    }
    if (exportedHash(value) !== hash) return `the hash of checkpoint ${due.id} is not that of its content`;
    if (hash !== due.hash) {
      return `the hash of checkpoint ${due.id} is not the one in entry ${this.#dueSeq} of the trail`;
    }
    const { task_id, tenant } = this.task;
    if (metadata.task_id !== task_id || metadata.tenant !== tenant) {
      return `checkpoint ${due.id} is of another task or tenant`;
    }
    if (compliance.event_log_ref !== `audit/${tenant}/${task_id}#${this.#dueSeq}`) {
      return `checkpoint ${due.id} names another audit entry than ${this.#dueSeq}`;
    }
    if (!restoresOrigin(value as unknown as UnsealedCheckpoint)) {
      return `checkpoint ${due.id} names an origin whose hash does not follow from it`;
    }
    if (due.version === 1 && metadata.seq !== this.#created) {
      return `checkpoint ${due.id} stands at position ${metadata.seq}, and the trail leads to ${this.#created}`;
    }
    this.#counts.versions += 1;
    this.#esignatures.addVersion(due);
    this.#due = null;
    return null;
  }

  #addLost({ checkpoint_id, version, removed_entry: removal }: ExportLineOf<"lost">): string | null {
    const due = this.#due;
    if (due === null) return "no audit entry made this version";
    if (checkpoint_id !== due.id || version !== due.version) return this.#missingVersion();
    this.#counts.lost += 1;
    if (removal !== undefined) {
      if (removal <= this.#dueSeq) return `checkpoint ${due.id} was removed before entry ${this.#dueSeq}`;
      this.removed += 1;
      this.#removals.set(removal, due.id);
    }
    this.#due = null;
    return null;
  }

  #missingVersion(): string {
    return `version ${this.#due?.version} of checkpoint ${this.#due?.id}, which entry ${this.#dueSeq} made, is missing`;
  }

  #addRecord(line: ExportLineOf<"record"> | ExportLineOf<"record_lost">): string | null {
    if (this.#due !== null) return this.#missingVersion();
    if (!this.#hasRecords) return "a file of this format has no records of missions";
    return this.#records.add(line);
  }

  #addHandoff({ handoff }: ExportLineOf<"handoff">): string | null {
    if (this.#due !== null) return this.#missingVersion();
    const { handoff_id: id, task_id, tenant } = handoff;
    if (task_id !== this.task.task_id || tenant !== this.task.tenant) {
      return `handoff ${id} is of another task or tenant`;
    }
    if (!this.#handoffsBegun.has(id)) return `no audit entry began handoff ${id}`;
    if (this.#handoffsSeen.has(id)) return `handoff ${id} stands twice in the task`;
    this.#handoffsSeen.add(id);
    this.#counts.handoffs += 1;
    return null;
  }

  #end({ task_id, digest, ...end }: ExportLineOf<"task_end">): string | null {
    if (this.#due !== null) return this.#missingVersion();
    this.#signatures.end();
    const { missing } = this.#records;
    if (this.#hasRecords && missing !== null) return `record ${missing}, which an entry states, is missing`;
    if (task_id !== this.task.task_id) return `expected the end of task ${this.task.task_id}`;
    const { audit_seq: seq, audit_hash: hash } = this.task;
    if (!this.#chain.finish({ seq, hash }).ok) {
      return `the trail of task ${task_id} does not end with the entry ${seq} that its head names`;
    }
    const { counts } = this;
    const wrong = TASK_COUNTS.find((name) => counts[name] !== (end[name] ?? 0));
    if (wrong !== undefined)
      return `task ${task_id} has ${counts[wrong]} ${wrong}, and its end says ${end[wrong] ?? 0}`;
    if (this.#digest.digest("hex") !== digest)
      return `the digest of task ${task_id} is not that of its lines`;
    return this.#headProblem();
  }

  #headProblem(): string | null {
    const { task } = this;
    if (this.#created !== task.seq)
      return `the trail made ${this.#created} checkpoints, and the head counts ${task.seq}`;
    const folded = this.#fold?.task;
    if (folded == null) return null;
    const led = { ...folded, state: stateOf(folded), handoff_id: openHandoffOf(folded) };
    const members = [
      "state",
      "phase",
      "owner",
      "fence",
      "latest_id",
      "last_successful_id",
      "handoff_id",
    ] as const;
    const differing = members.filter((name) => led[name] !== task[name]);
    return differing.length === 0 ? null : `the head differs from its trail in: ${differing.join(", ")}`;
  }
}
