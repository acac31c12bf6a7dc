/**
 * One agent's spool on disk: a folder with the file `open`, to which every process of the agent appends, and closed files that wait to
 * be sent. A file is closed by renaming it. Nobody locks anything to append: an appender writes, syncs and only then looks whether
 * `open` is still the file that it wrote to. If it is, whoever closes that file later will read the line; if it is not, the line is
 * written again into the new one. So at worst a line is there twice, which its command id makes harmless, and never not at all.
 */
import { constants, fstatSync, statSync, writeSync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { FleetError } from "../../protocol/errors.ts";
import { type Aside, asideLine, type Line, linesOf, type Mark, markLine } from "./line.ts";

const OPEN = "open";
const ASIDE = "aside";
const CLOSED = /^\d{8}-[0-9a-f-]{36}\.closed$/;
const APPENDING = constants.O_APPEND | constants.O_CREAT | constants.O_WRONLY;

interface Waiting {
  readonly line: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (error: FleetError) => void;
}

export class SpoolFolder {
  readonly path: string;
  readonly #bytesMax: number;
  #waiting: Waiting[] = [];
  #storing: Promise<void> | undefined;
  #file: FileHandle | undefined;

  /** Touches nothing until something is appended. `bytesMax`: over all files that wait. */
  constructor(path: string, bytesMax: number) {
    this.path = path;
    this.#bytesMax = bytesMax;
  }

  /**
   * On disk when it resolves. Throws UNAVAILABLE when nothing was kept (full, no space, not writable), TIMEOUT when that is not
   * certain.
   */
  append(line: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ line, resolve, reject });
      // Those who come while one sync is under way share the next one.
      this.#storing ??= this.#storeAll().finally(() => {
        this.#storing = undefined;
      });
    });
  }

  /** Names of files that wait, those to be sent first in front; without `open`. */
  async closed(): Promise<string[]> {
    return (await names(this.path)).filter((name) => CLOSED.test(name)).sort();
  }

  /** Closes what is being appended to. False: there is nothing. Only one process at a time may do this, or the order suffers. */
  async close(): Promise<boolean> {
    // Ours to close: what this process appends next goes into a new file at once.
    await this.#storing;
    await this.#closeFile();
    const last = (await this.closed()).at(-1);
    const number = last === undefined ? 1 : Number(last.slice(0, 8)) + 1;
    // A name of its own, so that no rename can ever cover another file.
    const name = `${String(number).padStart(8, "0")}-${uuidv7()}.closed`;
    try {
      await rename(join(this.path, OPEN), join(this.path, name));
      return true;
    } catch (error) {
      if (codeOf(error) === "ENOENT") return false;
      throw error;
    }
  }

  /** Empty when somebody else has sent and removed it. */
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
    await appendTo(join(this.path, ASIDE), Buffer.concat(all.map(asideLine)), APPENDING);
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.path, name), { force: true });
  }

  /** Every line that waits, oldest first, with the file it stands in. */
  async *lines(): AsyncGenerator<readonly Line[]> {
    for (const name of [...(await this.closed()), OPEN]) yield [...linesOf(await this.read(name))];
  }

  async aside(): Promise<Aside[]> {
    const lines = [...linesOf(await this.read(ASIDE))];
    return lines.flatMap((line) => (line.kind === "aside" ? [line.aside] : []));
  }

  async isEmpty(): Promise<boolean> {
    return !(await names(this.path)).some((name) => name === OPEN || CLOSED.test(name));
  }

  /** Of everything that waits. */
  async bytes(): Promise<number> {
    const waiting = (await names(this.path)).filter((name) => name === OPEN || CLOSED.test(name));
    const sizes = await Promise.all(waiting.map((name) => sizeOf(join(this.path, name))));
    return sizes.reduce((total, size) => total + size, 0);
  }

  /** Ends appending; what was appended stays. */
  async end(): Promise<void> {
    await this.#storing;
    await this.#closeFile();
  }

  async #storeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      // Set once bytes have reached a file: from then on a failure leaves open whether they will be sent.
      const progress = { landed: false };
      try {
        await this.#store(await this.#admitted(batch), progress);
      } catch (error) {
        for (const { reject } of batch) reject(notSpooled(error, this.path, progress.landed));
      }
    }
  }

  async #admitted(batch: readonly Waiting[]): Promise<Waiting[]> {
    await mkdir(this.path, { recursive: true, mode: 0o700 });
    let bytes = await this.bytes();
    const admitted: Waiting[] = [];
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

  async #store(batch: readonly Waiting[], progress: { landed: boolean }): Promise<void> {
    const bytes = Buffer.concat(batch.map(({ line }) => line));
    if (bytes.length === 0) return;
    await requireSpace(this.path, bytes.length);
    for (let again = false; ; again = true) {
      const file = await this.#openFile();
      // One write call: with O_APPEND its bytes stand together, whoever else appends.
      // And with nothing between the write and the look, or a quick sender could close file after file under our hands.
      const bytesWritten = writeSync(file.fd, bytes);
      progress.landed = true;
      if (this.#isOpen(file)) {
        await file.datasync();
        return this.#settle(batch, bytesWritten, again);
      }
      // Closed meanwhile, perhaps before our bytes were in it.
      await this.#closeFile();
    }
  }

  /** A disk that became full lets a write end early; lines that are whole count, the one that was cut has no checksum. */
  #settle(batch: readonly Waiting[], bytesWritten: number, again: boolean): void {
    let end = 0;
    for (const { line, resolve, reject } of batch) {
      end += line.length;
      if (end <= bytesWritten) resolve();
      else reject(notSpooled(Object.assign(new Error(), { code: "ENOSPC" }), this.path, again));
    }
  }

  async #openFile(): Promise<FileHandle> {
    if (this.#file !== undefined) return this.#file;
    await mkdir(this.path, { recursive: true, mode: 0o700 });
    this.#file = await open(join(this.path, OPEN), APPENDING, 0o600);
    // A new name must be on disk as well before anything in it counts.
    if ((await this.#file.stat()).size === 0) await syncFolder(this.path);
    return this.#file;
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

/** Refused before anything is written, rather than cut in the middle. */
async function requireSpace(path: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(path);
  if (bavail * bsize < bytes) throw Object.assign(new Error(), { code: "ENOSPC" });
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

function notSpooled(cause: unknown, spool: string, landed: boolean): FleetError {
  if (cause instanceof FleetError) return cause;
  const details = { spool, reason: codeOf(cause) || String(cause) };
  return landed
    ? new FleetError("TIMEOUT", "the spool could not be synced; the outcome is not known", { details, cause })
    : new FleetError("UNAVAILABLE", "no bus takes commands and the spool cannot be written", {
        details,
        cause,
      });
}
