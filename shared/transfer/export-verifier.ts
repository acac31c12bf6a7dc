/**
 * Verifies an export file line by line, without a fleet. The memory grows only with the names of the tasks. Nothing of a task may be used
 * before its end was verified.
 */
import { createHash, type Hash } from "node:crypto";
import type { EsignBlock } from "../protocol/esign.ts";
import {
  type ExportLine,
  type ExportLineOf,
  PASSKEY_ACTS_FORMAT,
  RECORDS_FORMAT,
} from "../protocol/export-lines.ts";
import { ArtifactVerifier } from "./artifact-verifier.ts";
import { ExportFault, parseExportLine } from "./export-line.ts";
import { TaskVerifier } from "./task-verifier.ts";

/** What an export file holds. */
export interface ExportSummary {
  readonly fleet: string | null;
  readonly tenant: string;
  readonly exported_at: string;
  readonly tasks: number;
  /** Tasks with a damaged head. */
  readonly unreadable: number;
  readonly entries: number;
  /** Entries whose signature verifies, with the keys that stand in the file. */
  readonly signed: number;
  readonly unsigned: number;
  /** Entries whose signature is lost or does not verify. */
  readonly signature_problems: number;
  /** Signed entries whose signatures a reader of an older version did not answer. */
  readonly signatures_unread: number;
  /** The electronic signatures, each with its task and its state. */
  readonly electronic_signatures: readonly (EsignBlock & { readonly task_id: string })[];
  /** Those that do not verify. */
  readonly esignature_problems: number;
  /** The ids of the keys in the file, to compare with those that are kept at another place. */
  readonly signing_keys: readonly string[];
  readonly versions: number;
  /** Versions that the fleet could not read. */
  readonly lost: number;
  /** Versions that retention had removed. */
  readonly removed: number;
  /** Records of missions. */
  readonly records: number;
  /** Those that the fleet could not read. */
  readonly records_lost: number;
  /** Missions whose records are not in the file, because its format has none. */
  readonly missions_without_records: number;
  readonly handoffs: number;
  readonly artifacts: number;
  readonly artifact_bytes: number;
  /** Artifacts that the fleet could not read. */
  readonly artifacts_lost: number;
  /** Their hashes. */
  readonly lost_artifacts: readonly string[];
  readonly lines: number;
}

export class ExportVerifier {
  #header: ExportLineOf<"header"> | null = null;
  #task: TaskVerifier | null = null;
  #hash: Hash = createHash("sha256");
  #lines = 0;
  #isComplete = false;
  readonly #artifacts = new ArtifactVerifier();
  readonly #done = new Set<string>();
  readonly #withoutRecords = new Set<string>();
  readonly #signingKeys = new Set<string>();
  readonly #esignatures: ExportSummary["electronic_signatures"][number][] = [];
  readonly #totals = {
    ...{ tasks: 0, unreadable: 0, entries: 0, versions: 0, lost: 0, removed: 0 },
    ...{ records: 0, records_lost: 0, handoffs: 0 },
    ...{ signed: 0, unsigned: 0, signature_problems: 0, signatures_unread: 0 },
  };

  /** Throws {@link ExportFault} before the first line. */
  get header(): ExportLineOf<"header"> {
    if (this.#header === null) throw new ExportFault(1, "expected the header of an export");
    return this.#header;
  }

  /** The tasks whose ends were verified, and those that are unreadable. */
  get done(): ReadonlySet<string> {
    return this.#done;
  }

  /** Missions whose records are not in the file, because its format has none. */
  get withoutRecords(): ReadonlySet<string> {
    return this.#withoutRecords;
  }

  /** Whether the last line was the trailer. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Whether the last line ended a task or an artifact, or stood outside of them. */
  get isBetweenTasks(): boolean {
    return this.#header !== null && this.#task === null && !this.#artifacts.isOpen;
  }

  /** The referenced artifacts that a file with artifacts does not have yet, with their sizes. */
  get missingArtifacts(): ReadonlyMap<string, number> {
    return this.#header?.artifacts === true ? this.#artifacts.missing : new Map();
  }

  get summary(): ExportSummary {
    const { fleet, tenant, exported_at } = this.header;
    const missions_without_records = this.#withoutRecords.size;
    const { counts: artifacts, lost: lost_artifacts } = this.#artifacts;
    const signing_keys = [...this.#signingKeys].sort();
    const electronic_signatures = [...this.#esignatures];
    const esignature_problems = electronic_signatures.filter(({ state }) => state !== "valid").length;
    const esigned = { electronic_signatures, esignature_problems };
    const counts = {
      ...this.#totals,
      ...esigned,
      signing_keys,
      missions_without_records,
      ...artifacts,
      lost_artifacts,
    };
    return { fleet, tenant, exported_at, ...counts, lines: this.#lines };
  }

  /** The counts and the digest so far: those of a trailer in the next line. */
  trailer(): ExportLineOf<"trailer"> {
    const { tasks, unreadable } = this.#totals;
    return {
      kind: "trailer",
      tasks,
      unreadable,
      lines: this.#lines,
      digest: this.#hash.copy().digest("hex"),
    };
  }

  /** `bytes`: the line without its line feed. Throws {@link ExportFault}. */
  add(bytes: Uint8Array): ExportLine {
    const number = this.#lines + 1;
    const line = parseExportLine(bytes, number);
    const problem = this.#verify(line, bytes);
    if (problem !== null) throw new ExportFault(number, problem);
    this.#lines = number;
    this.#hash.update(bytes).update("\n");
    return line;
  }

  /** Throws {@link ExportFault} unless the trailer was read. */
  end(): ExportSummary {
    if (!this.#isComplete)
      throw new ExportFault(this.#lines + 1, "the file ends before its trailer: the export was interrupted");
    return this.summary;
  }

  #verify(line: ExportLine, bytes: Uint8Array): string | null {
    if (this.#isComplete) return "the file continues after its trailer";
    if (this.#header === null) {
      if (line.kind !== "header") return "expected the header of an export";
      this.#header = line;
      return null;
    }
    if (this.#task !== null) return this.#inTask(this.#task, line, bytes);
    const problem = this.#artifacts.add(line);
    if (problem !== null) return problem;
    switch (line.kind) {
      case "artifact":
      case "artifact_part":
      case "artifact_lost":
        return this.header.artifacts === true ? null : "the header says that the file has no artifacts";
      case "task":
        return this.#begin(line, bytes);
      case "unreadable":
        if (this.#done.has(line.task_id)) return `task ${line.task_id} stands twice in the file`;
        this.#done.add(line.task_id);
        this.#totals.unreadable += 1;
        return null;
      case "trailer":
        return this.#end(line);
      default:
        return `expected a task or the trailer, and not a line of kind ${line.kind}`;
    }
  }

  #begin({ task, signatures_required: isRequired }: ExportLineOf<"task">, bytes: Uint8Array): string | null {
    if (this.#done.has(task.task_id)) return `task ${task.task_id} stands twice in the file`;
    if (task.tenant !== this.header.tenant) return `task ${task.task_id} is of another tenant than the file`;
    const hasRecords = this.header.format >= RECORDS_FORMAT;
    this.#task = new TaskVerifier(task, {
      hasRecords,
      hasPasskeyActs: this.header.format >= PASSKEY_ACTS_FORMAT,
      isSigned: isRequired === true,
    });
    this.#task.digest(bytes);
    return null;
  }

  #inTask(task: TaskVerifier, line: ExportLine, bytes: Uint8Array): string | null {
    const problem = task.add(line);
    if (problem !== null) return problem;
    if (line.kind === "checkpoint") this.#artifacts.addReferences(line.checkpoint);
    if (line.kind !== "task_end") {
      task.digest(bytes);
      return null;
    }
    const { counts } = task;
    for (const name of ["entries", "versions", "records", "records_lost", "handoffs"] as const)
      this.#totals[name] += counts[name];
    for (const name of ["signed", "unsigned", "signature_problems", "signatures_unread"] as const)
      this.#totals[name] += task.signatures[name];
    for (const id of task.signingKeys) this.#signingKeys.add(id);
    for (const block of task.esignatures) this.#esignatures.push({ task_id: line.task_id, ...block });
    this.#totals.lost += counts.lost - task.removed;
    if (task.lacksRecords) this.#withoutRecords.add(line.task_id);
    this.#totals.removed += task.removed;
    this.#totals.tasks += 1;
    this.#done.add(line.task_id);
    this.#task = null;
    return null;
  }

  #end(line: ExportLineOf<"trailer">): string | null {
    const { tasks, unreadable, lines, digest } = this.trailer();
    if (line.tasks !== tasks || line.unreadable !== unreadable || line.lines !== lines) {
      return `the trailer counts ${line.tasks} tasks in ${line.lines} lines, and the file has ${tasks} in ${lines}`;
    }
    const [missing] = this.missingArtifacts.keys();
    if (missing !== undefined) return `the file lacks artifact ${missing}, which a version references`;
    if (line.digest !== digest) return "the digest of the trailer is not that of the file";
    this.#isComplete = true;
    return null;
  }
}
