// The file of an export. Lines are appended as they are read from the fleet. After a crash the file is cut behind the last whole task, and
// the export continues there, so that the result is the file that an uninterrupted export writes.

import { EventEmitter, once } from "node:events";
import { type FileHandle, lstat, open } from "node:fs/promises";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { ExportLine, ExportLineOf } from "../../../../shared/protocol/export-lines.ts";
import {
  type NamedKeys,
  plainReadable,
  type ReadablePath,
} from "../../../../shared/transfer/encryption/encrypted-export.ts";
import { EncryptedWriter } from "../../../../shared/transfer/encryption/encrypted-writer.ts";
import { ExportFault, exportLineText } from "../../../../shared/transfer/export-line.ts";
import { ExportVerifier } from "../../../../shared/transfer/export-verifier.ts";
import type { Output } from "../../runtime/process-context.ts";
import { UsageError } from "../../runtime/usage.ts";
import { fileLines } from "./line-reader.ts";

/** Receives the lines of an export. Each is verified before it is written, so a damaged answer of the fleet is found here. */
export class ExportSink {
  readonly verifier: ExportVerifier;
  readonly #write: (bytes: Buffer) => Promise<void>;
  readonly #close: (isWhole: boolean) => Promise<void>;

  /** `close`: false if the export was interrupted. */
  constructor(
    verifier: ExportVerifier,
    write: (bytes: Buffer) => Promise<void>,
    close: (isWhole: boolean) => Promise<void>,
  ) {
    this.verifier = verifier;
    this.#write = write;
    this.#close = close;
  }

  async add(line: ExportLine): Promise<void> {
    const bytes = Buffer.from(`${exportLineText(line)}\n`);
    try {
      this.verifier.add(bytes.subarray(0, -1));
    } catch (error) {
      if (!(error instanceof ExportFault)) throw error;
      throw new FleetError("CORRUPT", `the fleet's records contradict each other: ${error.problem}`);
    }
    await this.#write(bytes);
  }

  close(): Promise<void> {
    return this.#close(this.verifier.isComplete);
  }
}

export function standardOutput(output: Output): ExportSink {
  const write = async (bytes: Buffer): Promise<void> => {
    const isFull = output.write(bytes.toString("utf8")) === false;
    // A slow reader of the pipe must not fill the memory of this process.
    if (isFull && output instanceof EventEmitter) await once(output, "drain");
  };
  return new ExportSink(new ExportVerifier(), write, async () => {});
}

/** A new file for its owner alone. Throws UsageError if it exists. */
export async function createFile(path: string): Promise<ExportSink> {
  try {
    return sinkOf(path, await open(path, "wx+", 0o600), { verifier: new ExportVerifier(), start: 0 });
  } catch (error) {
    throw unusable(path, error, "Name another file, or continue an interrupted export with --resume.");
  }
}

/** Throws UsageError if the name is taken, also by a link to nothing, which would stop the export only at its end. */
export async function requireFreeName(path: string): Promise<void> {
  const found = await lstat(path).catch(() => null);
  if (found !== null) throw nameTaken(path);
}

export const nameTaken = (path: string): UsageError => new UsageError(`${path} exists`, "Name another file.");

/** A new file, encrypted for its receivers. It is there only when it is whole. Throws UsageError if it exists. */
export async function createEncryptedFile(path: string, keys: NamedKeys): Promise<ExportSink> {
  await requireFreeName(path);
  const writer = await EncryptedWriter.create(path, keys).catch((error: unknown) => {
    throw unusable(path, error, "Give a file in a folder that you may write to.");
  });
  let isWritten = true;
  const write = (bytes: Buffer) =>
    writer.write(bytes).catch((error: unknown) => {
      isWritten = false;
      throw unwritable(path, error);
    });
  const close = async (isWhole: boolean): Promise<void> => {
    if (!isWhole || !isWritten) return writer.discard();
    await writer.finish().catch((error: NodeJS.ErrnoException) => {
      throw error.code === "EEXIST" ? nameTaken(path) : unwritable(path, error);
    });
  };
  return new ExportSink(new ExportVerifier(), write, close);
}

/** An interrupted file, cut behind its last whole task. Throws ExportFault if a whole line of it is not what an export writes. */
export async function resumeFile(path: string): Promise<ExportSink> {
  const file = await open(path, "r+").catch((error: unknown) => {
    throw unusable(path, error, "Name the file of an interrupted export, or leave out --resume.");
  });
  try {
    const whole = await wholeTasks(file, Number.POSITIVE_INFINITY);
    // Lines of an unfinished task were added to the digest, so the part that is kept is read once more.
    const kept = whole.isCut ? await wholeTasks(file, whole.end) : whole;
    await file.truncate(kept.end);
    await file.chmod(0o600);
    return sinkOf(path, file, { verifier: kept.verifier, start: kept.end });
  } catch (error) {
    await file.close();
    throw unusable(path, error, "Name the file of an interrupted export, or leave out --resume.");
  }
}

async function wholeTasks(
  file: FileHandle,
  limit: number,
): Promise<{ readonly verifier: ExportVerifier; readonly end: number; readonly isCut: boolean }> {
  const verifier = new ExportVerifier();
  let [end, isCut] = [0, false];
  for await (const line of fileLines(plainReadable(file))) {
    if (line.end > limit) break;
    verifier.add(line.bytes);
    isCut = !verifier.isBetweenTasks;
    if (!isCut) end = line.end;
  }
  return { verifier, end, isCut };
}

function sinkOf(
  path: string,
  file: FileHandle,
  { verifier, start }: { readonly verifier: ExportVerifier; readonly start: number },
): ExportSink {
  let at = start;
  const write = async (bytes: Buffer): Promise<void> => {
    for (let from = 0; from < bytes.length; ) {
      const { bytesWritten } = await file
        .write(bytes, from, bytes.length - from, at)
        .catch((error: unknown) => {
          throw unwritable(path, error);
        });
      from += bytesWritten;
      at += bytesWritten;
    }
  };
  const close = async (): Promise<void> => {
    try {
      await file.sync();
    } catch (error) {
      throw unwritable(path, error);
    } finally {
      await file.close();
    }
  };
  return new ExportSink(verifier, write, close);
}

/** Reads a whole file. Throws ExportFault. `onLine` receives each verified line, and the position behind it. */
export async function readExport(
  { path, open: opened }: ReadablePath,
  onLine: (line: ExportLine, end: number) => void | Promise<void> = () => {},
): Promise<ExportVerifier> {
  const file = await opened().catch((error: unknown) => {
    throw unusable(path, error, "Name a file that `export` wrote.");
  });
  try {
    const verifier = new ExportVerifier();
    let rest = 0;
    const lines = fileLines(file, (bytes) => {
      rest = bytes;
    });
    for await (const { bytes, end } of lines) await onLine(verifier.add(bytes), end);
    if (rest > 0)
      throw new ExportFault(verifier.summary.lines + 1, "the line has no end: the export was interrupted");
    verifier.end();
    return verifier;
  } catch (error) {
    throw unusable(path, error, "Name a file that `export` wrote.");
  } finally {
    await file.close();
  }
}

/** The header of an interrupted export, with the tasks that it is for. */
export function headerOf({ verifier }: ExportSink): ExportLineOf<"header"> | null {
  return verifier.isBetweenTasks ? verifier.header : null;
}

function unusable(path: string, error: unknown, hint: string): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (syscall === undefined) return error;
  if (code === "EEXIST") return new UsageError(`${path} exists`, hint);
  return new UsageError(`${path} cannot be used: ${code}`, hint);
}

/** What was written stays, and the export can continue behind it. */
function unwritable(path: string, error: unknown): FleetError {
  const { code, message } = error as NodeJS.ErrnoException;
  return new FleetError("UNAVAILABLE", "the file of the export cannot be written", {
    details: { file: path, problem: code ?? message },
    cause: error,
  });
}
