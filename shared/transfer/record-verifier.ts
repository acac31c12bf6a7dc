/** Verifies the records of a mission against its trail: each that an entry states is in the file once, with the bytes of the newest entry about it. */
import { sha256Hex } from "../integrity/canonical.ts";
import type { AuditEntry } from "../lifecycle/replay.ts";
import { statedRecordsOf } from "../lifecycle/trail/stated-record.ts";
import type { ExportLineOf } from "../protocol/export-lines.ts";

/** The records of a trail by name, each with the hash in the newest entry about it. */
export class NewestRecords {
  readonly #hashes = new Map<string, string>();

  get hashes(): ReadonlyMap<string, string> {
    return this.#hashes;
  }

  add(entry: AuditEntry): void {
    for (const { name, hash } of statedRecordsOf(entry)) this.#hashes.set(name, hash);
  }
}

/** The hash of the bytes of a record, in Base64. */
export const exportedRecordHash = (bytes: string): string => sha256Hex(Buffer.from(bytes, "base64"));

export class RecordVerifier {
  readonly #newest = new NewestRecords();
  readonly #seen = new Set<string>();
  readonly #counts = { records: 0, records_lost: 0 };

  get counts(): Readonly<Record<"records" | "records_lost", number>> {
    return this.#counts;
  }

  /** The first record that the trail states and the file lacks; null: none. */
  get missing(): string | null {
    return [...this.#newest.hashes.keys()].find((name) => !this.#seen.has(name)) ?? null;
  }

  addEntry(entry: AuditEntry): void {
    this.#newest.add(entry);
  }

  /** Returns the problem; null: none. */
  add(line: ExportLineOf<"record"> | ExportLineOf<"record_lost">): string | null {
    const { name } = line;
    const hash = this.#newest.hashes.get(name);
    if (hash === undefined) return `no audit entry states record ${name}`;
    if (this.#seen.has(name)) return `record ${name} stands twice in the task`;
    this.#seen.add(name);
    if (line.kind === "record_lost") {
      this.#counts.records_lost += 1;
      return null;
    }
    this.#counts.records += 1;
    return exportedRecordHash(line.bytes) === hash
      ? null
      : `the hash of record ${name} is not the one in the newest entry about it`;
  }
}
