// The tasks of an export file, for an import. A file is read twice: once to verify all of it, once to import it, because it may be larger
// than the memory. The second reading verifies again, so a file that changed in between is refused at the latest before a task ends.

import { type FileHandle, open } from "node:fs/promises";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { ExportLine } from "../../../../shared/protocol/export-lines.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import { referencesIn } from "../../../../shared/transfer/artifact-verifier.ts";
import { ExportFault, exportedHash, parseExportLine } from "../../../../shared/transfer/export-line.ts";
import { type ExportSummary, ExportVerifier } from "../../../../shared/transfer/export-verifier.ts";
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

export interface ExportedTask {
  readonly task: Task;
  readonly digest: string;
  /** All versions of one checkpoint before the next checkpoint. */
  readonly versions: readonly VersionPlace[];
  /** The version at a place. Throws INVALID if the file has changed. */
  read(place: VersionPlace): Promise<{ readonly hash: string; readonly checkpoint: Record<string, unknown> }>;
}

export interface ArtifactPlace {
  readonly size: number;
  readonly start: number;
}

export interface VerifiedFile {
  readonly summary: ExportSummary;
  /** The digest of each task. */
  readonly tasks: ReadonlyMap<string, string>;
  /** Tasks of which versions are lost or removed. */
  readonly incomplete: ReadonlySet<string>;
  /** The artifacts that each task references, with their sizes. */
  readonly references: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** The positions of the first parts of the artifacts in the file. */
  readonly artifacts: ReadonlyMap<string, ArtifactPlace>;
}

/** Throws INVALID, with the number of the line, unless the whole file verifies. */
export async function verifiedFile(path: string): Promise<VerifiedFile> {
  const tasks = new Map<string, string>();
  const incomplete = new Set<string>();
  const artifacts = new Map<string, ArtifactPlace>();
  const references = new Map<string, ReadonlyMap<string, number>>();
  let referenced = new Map<string, number>();
  const note = (line: ExportLine, end: number): void => {
    if (line.kind === "checkpoint")
      for (const [sha256, size] of referencesIn(line.checkpoint)) referenced.set(sha256, size);
    if (line.kind === "artifact") artifacts.set(line.sha256, { size: line.size, start: end });
    if (line.kind === "artifact_lost") artifacts.delete(line.sha256);
    if (line.kind !== "task_end") return;
    tasks.set(line.task_id, line.digest);
    references.set(line.task_id, referenced);
    referenced = new Map();
    if (line.lost > 0) incomplete.add(line.task_id);
  };
  const { summary } = await refusingFaults(path, () => readExport(path, note));
  return { summary, tasks, incomplete, references, artifacts };
}

/** The tasks that are meant, one by one. Of a task only the places of its versions are in memory. */
export async function* exportedTasks(
  path: string,
  isMeant: (task: string) => boolean,
): AsyncGenerator<ExportedTask> {
  const file = await open(path, "r");
  try {
    const verifier = new ExportVerifier();
    let versions: VersionPlace[] = [];
    let task: Task | null = null;
    let number = 0;
    for await (const { bytes, end } of fileLines(file)) {
      number += 1;
      const line = await refusingFaults(path, async () => verifier.add(bytes));
      if (line.kind === "task") [task, versions] = [line.task, []];
      if (line.kind === "checkpoint") {
        const { seq, version } = line.checkpoint.metadata as { seq: number; version: number };
        const start = end - bytes.length - 1;
        versions.push({ seq, version, hash: line.hash, line: number, start, bytes: bytes.length });
      }
      if (line.kind !== "task_end" || task === null || !isMeant(line.task_id)) continue;
      versions.sort((a, b) => a.seq - b.seq || a.version - b.version);
      yield { task, digest: line.digest, versions, read: (place) => readVersion(file, path, place) };
    }
  } finally {
    await file.close();
  }
}

async function readVersion(
  file: FileHandle,
  path: string,
  { start, bytes, line: number, hash }: VersionPlace,
): ReturnType<ExportedTask["read"]> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, start);
  return refusingFaults(path, async () => {
    const line = parseExportLine(buffer.subarray(0, bytesRead), number);
    if (line.kind !== "checkpoint" || line.hash !== hash || exportedHash(line.checkpoint) !== hash)
      throw new ExportFault(number, "the file was changed during the import");
    return { hash, checkpoint: line.checkpoint };
  });
}

export async function refusingFaults<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof ExportFault)) throw error;
    throw new FleetError("INVALID", "the file is not a whole export; nothing of this task was imported", {
      fields: [
        { path: `${path}, line ${error.line}`, expected: "what an export writes", got: error.problem },
      ],
    });
  }
}
