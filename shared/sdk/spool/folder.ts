/**
 * One agent's spool on disk: a folder with the file `open`, to which every process of the agent appends, and closed files that wait to
 * be sent. A file is closed by renaming it. Appending needs no lock: a process writes, checks that `open` is still the file that it
 * wrote to, and syncs. If it is, the process that closes that file later reads the line; if not, the line is written again into the new
 * file. At worst a line exists twice, which its command id makes harmless; it is never lost.
 */
import { constants, fstatSync, statSync, writeSync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { syncFoldersAbove } from "../../runtime/process/whole-file.ts";
import { type Aside, asideLine, type Line, linesOf, type Mark, markLine } from "./line.ts";

const OPEN = "open";
/** The lines that cannot be sent. */
export const ASIDE_FILE = "aside";
const FULL = new Set(["ENOSPC", "EDQUOT"]);
const CLOSED = /^\d{8}-[0-9a-f-]{36}\.closed$/;
const APPENDING = constants.O_APPEND | constants.O_CREAT | constants.O_WRONLY;

interface PendingLine {
  readonly line: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (error: FleetError) => void;
}

export class SpoolFolder {
  readonly path: string;
  readonly #bytesMax: number;
  #waiting: PendingLine[] = [];
  #storing: Promise<void> | undefined;
  #file: FileHandle | undefined;
  /** The names of the folder and of those above it are on the disk. */
  #isFixed = false;

  /** Creates nothing until a line is appended. `bytesMax`: the limit for all pending files together. */
  constructor(path: string, bytesMax: number) {
    this.path = path;
    this.#bytesMax = bytesMax;
  }

  /**
   * The line is on disk when it resolves. Throws UNAVAILABLE if it is not (full, no space, not writable), or TIMEOUT if that is
   * uncertain.
   */
  append(line: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ line, resolve, reject });
      // Lines that arrive during a sync share the next one.
      this.#storing ??= this.#storeAll();
    });
  }

  /** The names of the closed files, in the order in which they must be sent. */
  async closed(): Promise<string[]> {
    return (await names(this.path)).filter((name) => CLOSED.test(name)).sort();
  }

  /** Closes the file `open`. False if there is none. The caller must hold the lock of the spool, or the order of the files may be lost. */
  async close(): Promise<boolean> {
    // So that the next line of this process goes straight into a new file.
    await this.#storing;
    await this.#closeFile();
    const last = (await this.closed()).at(-1);
    const number = last === undefined ? 1 : Number(last.slice(0, 8)) + 1;
    // A unique name, so that no rename can replace another file.
    const name = `${String(number).padStart(8, "0")}-${uuidv7()}.closed`;
    try {
      await rename(join(this.path, OPEN), join(this.path, name));
      return true;
    } catch (error) {
      if (codeOf(error) === "ENOENT") return false;
      throw error;
    }
  }

  /** Empty if another process has sent and removed the file. */
  async read(name: string): Promise<Uint8Array> {
    try {
      return await readFile(join(this.path, name));
    } catch (error) {
      if (codeOf(error) === "ENOENT") return new Uint8Array(0);
      throw error;
    }
  }

  async mark(name: string, mark: Mark): Promise<void> {
    await appendTo(join(this.path, name), markLine(mark), constants.O_APPEND | constants.O_WRONLY);
  }

  async setAside(all: readonly Aside[]): Promise<void> {
    await appendTo(join(this.path, ASIDE_FILE), Buffer.concat(all.map(asideLine)), APPENDING);
    // Also of a file that exists: the process that made it may have been killed before this line.
    await syncFolder(this.path);
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.path, name), { force: true });
  }

  /** The pending lines of each file, oldest first. */
  async *lines(): AsyncGenerator<readonly Line[]> {
    for (const name of [...(await this.closed()), OPEN]) yield [...linesOf(await this.read(name))];
  }

  async aside(): Promise<Aside[]> {
    const lines = [...linesOf(await this.read(ASIDE_FILE))];
    return lines.flatMap((line) => (line.kind === "aside" ? [line.aside] : []));
  }

  async isEmpty(): Promise<boolean> {
    return !(await names(this.path)).some((name) => name === OPEN || CLOSED.test(name));
  }

  /** The size of all pending files. */
  async bytes(): Promise<number> {
    const pending = (await names(this.path)).filter((name) => name === OPEN || CLOSED.test(name));
    const sizes = await Promise.all(pending.map((name) => sizeOf(join(this.path, name))));
    return sizes.reduce((total, size) => total + size, 0);
  }

  /** Closes the folder for this process. The files stay. */
  async end(): Promise<void> {
    await this.#storing;
    await this.#closeFile();
  }

  async #storeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      // `landed` is set once bytes have reached a file: after a later failure they may still be sent.
      const progress = { landed: false };
      try {
        await this.#store(await this.#admitted(batch), progress);
      } catch (error) {
        for (const { reject } of batch) reject(notSpooled(error, this.path, progress.landed));
      }
    }
    // In the same step as the last look, so that no line arrives in between and waits for ever.
    this.#storing = undefined;
  }

  async #admitted(batch: readonly PendingLine[]): Promise<PendingLine[]> {
    await this.#make();
    let bytes = await this.bytes();
    const admitted: PendingLine[] = [];
    for (const one of batch) {
      if (bytes + one.line.length > this.#bytesMax) {
        one.reject(full(this.path, bytes, this.#bytesMax));
        continue;
      }
      bytes += one.line.length;
      admitted.push(one);
    }
    return admitted;
  }

  async #store(batch: readonly PendingLine[], progress: { landed: boolean }): Promise<void> {
    const bytes = Buffer.concat(batch.map(({ line }) => line));
    if (bytes.length === 0) return;
    await requireSpace(this.path, bytes.length);
    for (let again = false; ; again = true) {
      const file = await this.#openFile();
      // A single call: with O_APPEND its bytes are contiguous, although other processes append as well. The check follows without an
      // await, because a fast sender could otherwise close one file after the other before each check.
      const bytesWritten = writeSync(file.fd, bytes);
      progress.landed = true;
      if (this.#isOpen(file)) {
        await file.datasync();
        return this.#settle(batch, bytesWritten, again);
      }
      // The file was closed meanwhile, perhaps before these bytes were in it.
      await this.#closeFile();
    }
  }

  /** On a full disk a write may end early. Whole lines are valid; the truncated one has no checksum. */
  #settle(batch: readonly PendingLine[], bytesWritten: number, again: boolean): void {
    let end = 0;
    for (const { line, resolve, reject } of batch) {
      end += line.length;
      if (end <= bytesWritten) resolve();
      else reject(notSpooled(Object.assign(new Error(), { code: "ENOSPC" }), this.path, again));
    }
  }

  async #openFile(): Promise<FileHandle> {
    if (this.#file !== undefined) return this.#file;
    await this.#make();
    const file = await open(join(this.path, OPEN), APPENDING, 0o600);
    try {
      // The name of a new file must be on disk too, before a line in it counts as stored.
      if ((await file.stat()).size === 0) await syncFolder(this.path);
      // And the names of the folders on its path, which another process may have made.
      if (!this.#isFixed) syncFoldersAbove(this.path);
    } catch (error) {
      // The next line would otherwise be written without these syncs.
      await file.close();
      throw error;
    }
    this.#isFixed = true;
    this.#file = file;
    return file;
  }

  async #make(): Promise<void> {
    const made = await mkdir(this.path, { recursive: true, mode: 0o700 });
    if (made !== undefined) this.#isFixed = false;
  }

  #isOpen(file: FileHandle): boolean {
    const own = fstatSync(file.fd, { bigint: true });
    const named = statSync(join(this.path, OPEN), { bigint: true, throwIfNoEntry: false });
    return named?.ino === own.ino && named.dev === own.dev;
  }

  async #closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }
}

async function appendTo(path: string, bytes: Uint8Array, flags: number): Promise<void> {
  const file = await open(path, flags, 0o600);
  try {
    await file.write(bytes);
    await file.datasync();
  } finally {
    await file.close();
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Refuses lines before they are written, so that they are not truncated. */
async function requireSpace(path: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(path);
  const free = bavail * bsize;
  if (free < bytes + LIMITS.spool_free_bytes_min)
    throw diskFull(path, { reason: "ENOSPC", free_bytes: free });
}

async function names(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    return 0;
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? "";
}

function full(spool: string, bytes: number, bytesMax: number): FleetError {
  const details = { spool, bytes, bytes_max: bytesMax };
  return new FleetError("UNAVAILABLE", "the spool is full and no bus takes commands", { details });
}

function diskFull(spool: string, facts: object, cause?: unknown): FleetError {
  return new FleetError("UNAVAILABLE", "the disk of the spool is full and no bus takes commands", {
    details: { spool, ...facts },
    cause,
  });
}

function notSpooled(cause: unknown, spool: string, landed: boolean): FleetError {
  if (cause instanceof FleetError) return cause;
  if (!landed && FULL.has(codeOf(cause))) return diskFull(spool, { reason: codeOf(cause) }, cause);
  const details = { spool, reason: codeOf(cause) || String(cause) };
  return landed
    ? new FleetError("TIMEOUT", "the spool could not be synced; the outcome is not known", { details, cause })
    : new FleetError("UNAVAILABLE", "no bus takes commands and the spool cannot be written", {
        details,
        cause,
      });
}
