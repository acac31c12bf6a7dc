// The tasks of an export file, for an import. A file is read twice: once to verify all of it, once to import it, because it may be larger
// than the memory. The second reading verifies again, so a file that changed in between is refused at the latest before a task ends.

import type { ImportRecordsCommand } from "../../../../shared/protocol/commands.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { ExportLine } from "../../../../shared/protocol/export-lines.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import { referencesIn } from "../../../../shared/transfer/artifact-verifier.ts";
import type { ReadableFile, ReadablePath } from "../../../../shared/transfer/encryption/encrypted-export.ts";
import { ExportFault, exportedHash, parseExportLine } from "../../../../shared/transfer/export-line.ts";
import { type ExportSummary, ExportVerifier } from "../../../../shared/transfer/export-verifier.ts";
import { exportedRecordHash } from "../../../../shared/transfer/record-verifier.ts";
import { type ExportedRemoval, RemovedCheckpoints } from "../../../../shared/transfer/removed-checkpoints.ts";
import { readExport } from "./export-file.ts";
import { fileLines } from "./line-reader.ts";

/** The place of a version in the file. */
export interface VersionPlace {
  readonly seq: number;
  readonly version: number;
  readonly hash: string;
  /** The number of the line, and the position of its bytes. */
  readonly line: number;
  readonly start: number;
  readonly bytes: number;
}

/** The place of a record of the mission in the file. */
export interface RecordPlace {
  readonly name: string;
  readonly hash: string;
  readonly line: number;
  readonly start: number;
  readonly bytes: number;
}

export interface ExportedTask {
  readonly task: Task;
  readonly digest: string;
  /** All versions of one checkpoint before the next checkpoint. */
  readonly versions: readonly VersionPlace[];
  /** The version at a place. Throws CORRUPT if the file has changed. */
  read(place: VersionPlace): Promise<{ readonly hash: string; readonly checkpoint: Record<string, unknown> }>;
  /** The checkpoints that retention removed. */
  readonly removed: readonly ExportedRemoval[];
  readonly records: readonly RecordPlace[];
  /** The record at a place. Throws CORRUPT if the file has changed. */
  readRecord(place: RecordPlace): Promise<ImportRecordsCommand["records"][number]>;
}

export interface ArtifactPlace {
  readonly size: number;
  readonly start: number;
}

export interface VerifiedFile {
  readonly summary: ExportSummary;
  /** The digest of each task. */
  readonly tasks: ReadonlyMap<string, string>;
  /** Tasks of which versions or records are lost. */
  readonly incomplete: ReadonlySet<string>;
  /** Missions whose records are not in the file, because its format has none. */
  readonly withoutRecords: ReadonlySet<string>;
  /** The artifacts that each task references, with their sizes. */
  readonly references: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** The positions of the first parts of the artifacts in the file. */
  readonly artifacts: ReadonlyMap<string, ArtifactPlace>;
}

/** Throws CORRUPT, with the number of the line, unless the whole file verifies. */
export async function verifiedFile(source: ReadablePath): Promise<VerifiedFile> {
  const tasks = new Map<string, string>();
  const incomplete = new Set<string>();
  const artifacts = new Map<string, ArtifactPlace>();
  const references = new Map<string, ReadonlyMap<string, number>>();
  let referenced = new Map<string, number>();
  let removed = new RemovedCheckpoints();
  /** An earlier version exported tasks whose import had not ended. */
  let isPart = false;
  const note = (line: ExportLine, end: number): void => {
    removed.add(line);
    if (line.kind === "task") isPart = line.task.origin?.complete === false;
    if (line.kind === "checkpoint")
      for (const [sha256, size] of referencesIn(line.checkpoint)) referenced.set(sha256, size);
    if (line.kind === "artifact") artifacts.set(line.sha256, { size: line.size, start: end });
    if (line.kind === "artifact_lost") artifacts.delete(line.sha256);
    if (line.kind !== "task_end") return;
    tasks.set(line.task_id, line.digest);
    references.set(line.task_id, referenced);
    referenced = new Map();
    if (isPart || !removed.isWhole || (line.records_lost ?? 0) > 0) incomplete.add(line.task_id);
    removed = new RemovedCheckpoints();
  };
  const { summary, withoutRecords } = await refusingFaults(source.path, () => readExport(source, note));
  return { summary, tasks, incomplete, withoutRecords, references, artifacts };
}

/** The tasks that are meant, one by one. Of a task only the places of its versions are in memory. */
export async function* exportedTasks(
  { path, open }: ReadablePath,
  isMeant: (task: string) => boolean,
): AsyncGenerator<ExportedTask> {
  const file = await open();
  try {
    const verifier = new ExportVerifier();
    let [versions, records]: [VersionPlace[], RecordPlace[]] = [[], []];
    let gone = new RemovedCheckpoints();
    let task: Task | null = null;
    let number = 0;
    for await (const { bytes, end } of fileLines(file)) {
      number += 1;
      const line = await refusingFaults(path, async () => verifier.add(bytes));
      const place = { line: number, start: end - bytes.length - 1, bytes: bytes.length };
      if (line.kind === "task")
        [task, versions, records, gone] = [line.task, [], [], new RemovedCheckpoints()];
      gone.add(line);
      if (line.kind === "checkpoint") {
        const { seq, version } = line.checkpoint.metadata as { seq: number; version: number };
        versions.push({ seq, version, hash: line.hash, ...place });
      }
      if (line.kind === "record")
        records.push({ name: line.name, hash: exportedRecordHash(line.bytes), ...place });
      if (line.kind !== "task_end" || task === null || !isMeant(line.task_id)) continue;
      versions.sort((a, b) => a.seq - b.seq || a.version - b.version);
      const read = (at: VersionPlace) => readVersion(file, path, at);
      const readRecord = (at: RecordPlace) => readRecordAt(file, path, at);
      const { removed } = gone;
      yield { task, digest: line.digest, versions, read, removed, records, readRecord };
    }
  } finally {
    await file.close();
  }
}

function readVersion(
  file: ReadableFile,
  path: string,
  place: VersionPlace,
): ReturnType<ExportedTask["read"]> {
  const { hash, line: number } = place;
  return refusingFaults(path, async () => {
    const line = await readLine(file, place);
    if (line.kind !== "checkpoint" || line.hash !== hash || exportedHash(line.checkpoint) !== hash)
      throw changed(number);
    return { hash, checkpoint: line.checkpoint };
  });
}

function readRecordAt(
  file: ReadableFile,
  path: string,
  place: RecordPlace,
): ReturnType<ExportedTask["readRecord"]> {
  const { name, hash, line: number } = place;
  return refusingFaults(path, async () => {
    const line = await readLine(file, place);
    if (line.kind !== "record" || line.name !== name || exportedRecordHash(line.bytes) !== hash)
      throw changed(number);
    return { name, hash, bytes: line.bytes };
  });
}

async function readLine(
  file: ReadableFile,
  { start, bytes, line }: Pick<VersionPlace, "start" | "bytes" | "line">,
): Promise<ExportLine> {
  return parseExportLine(await file.read(start, bytes), line);
}

const changed = (line: number): ExportFault =>
  new ExportFault(line, "the file was changed during the import");

export async function refusingFaults<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof ExportFault)) throw error;
    throw new FleetError("CORRUPT", "the file is not a whole export; nothing of this task was imported", {
      details: { file: path, line: error.line },
      fields: [
        { path: `${path}, line ${error.line}`, expected: "what an export writes", got: error.problem },
      ],
    });
  }
}
