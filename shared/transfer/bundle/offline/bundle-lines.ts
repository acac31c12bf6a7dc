/**
 * Verifies the lines of export.jsonl one after the other: their order, the hash chain of each task, the hash of each
 * version against its entry, the counts and the digests. The first fault ends the reading.
 */
import { createHash, type Hash } from "node:crypto";
import { exactBase64 } from "../../../integrity/merkle/note.ts";
import { BundleArtifacts } from "./bundle-artifacts.ts";
import { textHash } from "./bundle-keys.ts";
import {
  type ExactObject,
  exactObject,
  exactObjectIn,
  exactText,
  isCountFrom,
  isExactObject,
  isHexHash,
  objectIn,
} from "./exact-json.ts";

const FORMAT_MAX = 6;
const FORMAT_WITH_RECORDS = 3;
const CHAIN_BEGIN = "0".repeat(64);
const ENTRY_VERSION = 2;
const STATED_RECORD = /^([0-9a-f]{64}) (.+)$/s;

/** An entry of a task, with the members of its line. */
export interface LineEntry {
  readonly tenant: string;
  readonly task: string;
  readonly seq: number;
  readonly text: string;
  readonly facts: ExactObject;
  readonly line: ExactObject;
}

export interface LineReader {
  onTask(isRequired: boolean, task: string): void;
  onEntry(entry: LineEntry): void;
  onTaskEnd(): void;
  /** The fleet could not read something, as this place states. */
  onGap(place: string): void;
}

interface DueVersion {
  readonly id: string;
  readonly version: number;
  readonly hash: string;
}

/** The task whose lines are read. */
interface OpenTask {
  readonly id: string;
  readonly head: ExactObject;
  readonly digest: Hash;
  readonly handoffsBegun: Set<string>;
  readonly handoffsSeen: Set<string>;
  readonly removals: Map<number, string>;
  /** The newest hash of each record that the trail states. */
  readonly records: Map<string, string>;
  readonly recordsSeen: Set<string>;
  readonly counts: Record<"entries" | "versions" | "lost" | "records" | "records_lost" | "handoffs", number>;
  prev: string;
  seq: number;
  fence: unknown;
  created: number;
  due: DueVersion | null;
}

export class BundleLines {
  readonly counts = {
    ...{ lines: 0, tasks: 0, unreadable: 0, entries: 0, versions: 0, lost: 0, removed: 0 },
    ...{ records: 0, records_lost: 0, handoffs: 0 },
  };
  readonly artifacts = new BundleArtifacts();
  /** Of the ends of the chains, in the order of the tasks. */
  readonly #ends = createHash("sha256");
  readonly #unreadable: string[] = [];
  readonly #reader: LineReader;
  readonly #digest = createHash("sha256");
  readonly #done = new Set<string>();
  #header: ExactObject | null = null;
  #task: OpenTask | null = null;
  #isComplete = false;

  constructor(reader: LineReader) {
    this.#reader = reader;
  }

  get header(): ExactObject | null {
    return this.#header;
  }

  /** SHA-256 of the ends of the chains and of the tasks that could not be read, after the last line. */
  endsDigest(): string {
    const digest = this.#ends.copy();
    for (const task of this.#unreadable) digest.update(`${task} unreadable\n`);
    return digest.digest("hex");
  }

  /** Returns the code of the fault; null: none. `bytes` null: it is no line. */
  add(bytes: Buffer | null): string | null {
    const line = bytes === null ? null : exactObjectIn(bytes);
    if (bytes === null || line === null) return "line";
    if (this.#isComplete) return "order";
    const task = this.#task;
    const fault =
      this.#header === null
        ? this.#begin(line)
        : task === null
          ? this.#between(line)
          : this.#inTask(task, line);
    if (fault !== null) return fault;
    this.counts.lines += 1;
    this.#digest.update(bytes).update("\n");
    if (this.#task !== null) this.#task.digest.update(bytes).update("\n");
    return null;
  }

  #gap(what: string): void {
    this.#reader.onGap(`export.jsonl:${this.counts.lines + 1} (${what})`);
  }

  /** The code of the fault at the end of the file; null: none. */
  end(): string | null {
    return this.#isComplete ? null : "truncated";
  }

  #begin(line: ExactObject): string | null {
    const { kind, format, tenant, exported_at } = line;
    if (kind !== "header") return "order";
    if (!isCountFrom(1, format) || typeof tenant !== "string" || typeof exported_at !== "string")
      return "line";
    if (format > FORMAT_MAX) return "format";
    this.#header = line;
    return null;
  }

  #between(line: ExactObject): string | null {
    const found = this.artifacts.add(line);
    if (found !== undefined) {
      if (line.kind === "artifact_lost" && found === null) this.#gap(`artifact ${String(line.sha256)}`);
      return this.#header?.artifacts === true ? found : "order";
    }
    if (this.artifacts.isOpen) return "artifact";
    switch (line.kind) {
      case "task":
        return this.#beginTask(line);
      case "unreadable":
        if (typeof line.task_id !== "string") return "line";
        if (this.#done.has(line.task_id)) return "order";
        this.#done.add(line.task_id);
        this.#unreadable.push(line.task_id);
        this.counts.unreadable += 1;
        this.#gap(`task ${line.task_id}`);
        return null;
      case "trailer":
        return this.#trailer(line);
      default:
        return "order";
    }
  }

  #beginTask({ task: head, signatures_required: isRequired }: ExactObject): string | null {
    if (!isExactObject(head) || typeof head.task_id !== "string") return "line";
    if (!isCountFrom(0, head.audit_seq) || !isCountFrom(0, head.seq)) return "line";
    const { task_id: id } = head;
    if (head.tenant !== this.#header?.tenant || this.#done.has(id)) return "order";
    const counts = { entries: 0, versions: 0, lost: 0, records: 0, records_lost: 0, handoffs: 0 };
    const chain = { prev: CHAIN_BEGIN, seq: 0, fence: undefined, created: 0, due: null };
    const sets = { handoffsBegun: new Set<string>(), handoffsSeen: new Set<string>(), removals: new Map() };
    const records = { records: new Map<string, string>(), recordsSeen: new Set<string>() };
    this.#task = { id, head, digest: createHash("sha256"), ...sets, ...records, counts, ...chain };
    this.#reader.onTask(isRequired === true, id);
    return null;
  }

  #inTask(task: OpenTask, line: ExactObject): string | null {
    switch (line.kind) {
      case "audit":
        return this.#entry(task, line);
      case "checkpoint":
        return this.#version(task, line);
      case "lost":
        return this.#lost(task, line);
      case "record":
      case "record_lost":
        return this.#record(task, line);
      case "handoff":
        return handoffFault(task, line);
      case "task_end":
        return this.#endTask(task, line);
      default:
        return "order";
    }
  }

  #entry(task: OpenTask, line: ExactObject): string | null {
    const { seq, entry: text } = line;
    const { counts } = task;
    if (!isCountFrom(1, seq) || typeof text !== "string") return "line";
    if (task.due !== null) return "version";
    if (counts.handoffs + counts.records + counts.records_lost > 0) return "order";
    const facts = exactObject(text);
    const isNext = facts !== null && seq === task.seq + 1 && facts.seq === seq && facts.prev === task.prev;
    if (!isNext || facts.task !== task.id || facts.tenant !== task.head.tenant) return "chain";
    const removed = task.removals.get(seq);
    if (removed !== undefined && (facts.op !== "remove" || facts.checkpoint_id !== removed)) return "version";
    counts.entries += 1;
    [task.seq, task.prev] = [seq, textHash(text)];
    if (facts.v === ENTRY_VERSION) task.fence = facts.fence;
    noteFacts(task, facts);
    this.#reader.onEntry({ tenant: String(facts.tenant), task: task.id, seq, text, facts, line });
    return null;
  }

  #version(task: OpenTask, { checkpoint: value, hash }: ExactObject): string | null {
    const { due } = task;
    if (!isExactObject(value) || !isHexHash(hash)) return "line";
    if (due === null) return "version";
    const [metadata, compliance] = [objectIn(value, "metadata"), objectIn(value, "compliance")];
    const isDue = metadata.checkpoint_id === due.id && metadata.version === due.version;
    const isOfTask = metadata.task_id === task.id && metadata.tenant === task.head.tenant;
    const place = `audit/${task.head.tenant}/${task.id}#${task.seq}`;
    const isPlaced = compliance.event_log_ref === place && (due.version > 1 || metadata.seq === task.created);
    const isWithoutSeal = !("hash" in compliance) && !("signature" in compliance);
    const isHashed = textHash(exactText(value)) === hash && hash === due.hash;
    if (!isDue || !isOfTask || !isPlaced || !isWithoutSeal || !isHashed) return "version";
    this.artifacts.addReferences(value);
    task.counts.versions += 1;
    task.due = null;
    return null;
  }

  #lost(task: OpenTask, line: ExactObject): string | null {
    const { checkpoint_id, version, removed_entry: removal } = line;
    const { due } = task;
    if (due === null || checkpoint_id !== due.id || version !== due.version) return "version";
    task.counts.lost += 1;
    task.due = null;
    if (removal === undefined) {
      this.#gap(`version ${due.version} of ${due.id}, task ${task.id}`);
      return null;
    }
    if (!isCountFrom(task.seq + 1, removal)) return "version";
    this.counts.removed += 1;
    task.removals.set(removal, due.id);
    return null;
  }

  #record(task: OpenTask, { kind, name, bytes }: ExactObject): string | null {
    if (typeof name !== "string") return "line";
    if (task.due !== null) return "version";
    const hash = task.records.get(name);
    if (hash === undefined || task.recordsSeen.has(name)) return "record";
    task.recordsSeen.add(name);
    if (kind === "record_lost") {
      task.counts.records_lost += 1;
      this.#gap(`record ${name}, task ${task.id}`);
      return null;
    }
    const content = typeof bytes === "string" ? exactBase64(bytes) : null;
    if (content === null || createHash("sha256").update(content).digest("hex") !== hash) return "record";
    task.counts.records += 1;
    return null;
  }

  #endTask(task: OpenTask, line: ExactObject): string | null {
    const { counts, head } = task;
    if (task.due !== null) return "version";
    const hasRecords = (this.#header?.format as number) >= FORMAT_WITH_RECORDS;
    if (hasRecords && counts.records + counts.records_lost !== task.records.size) return "record";
    if (line.task_id !== task.id) return "order";
    if (head.audit_seq !== task.seq || head.audit_hash !== task.prev || head.seq !== task.created)
      return "head";
    if (task.fence !== undefined && head.fence !== task.fence) return "head";
    const names = ["entries", "versions", "lost", "records", "records_lost", "handoffs"] as const;
    if (names.some((name) => counts[name] !== (line[name] ?? 0))) return "count";
    if (task.digest.digest("hex") !== line.digest) return "digest";
    for (const name of names) this.counts[name] += counts[name];
    // Of a checkpoint that was removed during the export, no entry of the file proves the removal.
    for (const seq of task.removals.keys()) if (seq > task.seq) this.#reader.onGap(`${task.id}/${seq}`);
    this.#ends.update(`${task.id} ${task.seq} ${task.prev}\n`);
    this.counts.tasks += 1;
    this.#done.add(task.id);
    this.#task = null;
    this.#reader.onTaskEnd();
    return null;
  }

  #trailer({ tasks, unreadable, lines, digest }: ExactObject): string | null {
    const { counts } = this;
    const isCounted = tasks === counts.tasks && unreadable === counts.unreadable && lines === counts.lines;
    if (!isCounted) return "count";
    if (this.#header?.artifacts === true && this.artifacts.missing > 0) return "artifact";
    if (digest !== this.#digest.copy().digest("hex")) return "digest";
    this.#isComplete = true;
    return null;
  }
}

function noteFacts(task: OpenTask, facts: ExactObject): void {
  const { op, handoff_id, checkpoint_id: id, version, new_hash: hash, records } = facts;
  if (op === "handoff" && typeof handoff_id === "string") task.handoffsBegun.add(handoff_id);
  const isVersion = typeof id === "string" && typeof version === "number" && typeof hash === "string";
  task.due = isVersion ? { id, version, hash } : null;
  if ((isVersion && version === 1) || op === "import_removed") task.created += 1;
  if (!Array.isArray(records)) return;
  for (const text of records as readonly unknown[]) {
    const [, stated, name] = (typeof text === "string" && STATED_RECORD.exec(text)) || [];
    if (stated !== undefined && name !== undefined) task.records.set(name, stated);
  }
}

function handoffFault(task: OpenTask, { handoff }: ExactObject): string | null {
  if (!isExactObject(handoff) || typeof handoff.handoff_id !== "string") return "line";
  if (task.due !== null) return "version";
  const { handoff_id: id, task_id, tenant } = handoff;
  if (task_id !== task.id || tenant !== task.head.tenant) return "handoff";
  if (!task.handoffsBegun.has(id) || task.handoffsSeen.has(id)) return "handoff";
  task.handoffsSeen.add(id);
  task.counts.handoffs += 1;
  return null;
}
