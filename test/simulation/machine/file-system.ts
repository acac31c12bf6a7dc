/**
 * The file system of a simulated machine, on the disk model of the recorded power cuts: a power cut takes back what no sync covered. The functions
 * have the names, arguments, results and error codes of `node:fs`, as far as Fleet uses them.
 */
import { constants } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { type FileChange, type NameChange, RecordedDisk } from "../../fleet/power/recording/disk.ts";
import { cutPower } from "../../fleet/power/recording/power-cut.ts";

/** The folder of all simulated files. */
export const SIMULATED_FOLDER = "/simulated";
/** Above the descriptors of the real process. */
export const FD_FIRST = 1_000_000;

interface OpenFile {
  readonly file: number;
  readonly isAppending: boolean;
  offset: number;
}

type Path = string | Buffer | URL;
type Bytes = string | Uint8Array;
type Encoding = BufferEncoding | { readonly encoding?: BufferEncoding | null } | null;

export interface SimulatedFilesOptions {
  /** From 0 to below 1. */
  readonly random: () => number;
  /** Sees each change of the disk. */
  readonly observe?: (change: string, bytes: Uint8Array) => void;
}

const FLAGS: Readonly<Record<string, number>> = {
  r: constants.O_RDONLY,
  "r+": constants.O_RDWR,
  w: constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC,
  wx: constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL,
  a: constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND,
  ax: constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | constants.O_EXCL,
};

const BLOCK_BYTES = 4_096;
const FREE_BLOCKS = 2 ** 24;
const NOTHING = Buffer.alloc(0);

export function fileError(code: string, call: string, path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: ${call} '${path}'`), { code, syscall: call, path });
}

const pathOf = (path: Path): string => resolve(path instanceof URL ? path.pathname : String(path));
const bytesOf = (data: Bytes): Buffer => (typeof data === "string" ? Buffer.from(data) : Buffer.from(data));

export class SimulatedFiles {
  readonly #disk = new RecordedDisk();
  readonly #open = new Map<number, OpenFile>();
  readonly #changedMs = new Map<number, number>();
  readonly #random: () => number;
  readonly #observe: NonNullable<SimulatedFilesOptions["observe"]>;
  #nextFd = FD_FIRST;

  constructor({ random, observe = () => {} }: SimulatedFilesOptions) {
    this.#random = random;
    this.#observe = observe;
    this.mkdirSync(SIMULATED_FOLDER);
    this.#sync(this.#disk.root);
  }

  /** The power of the machine fails. The caller kills its processes before. */
  cutPower(): void {
    this.#open.clear();
    cutPower(this.#disk, (below) => Math.floor(this.#random() * below));
    this.#observe("power cut", NOTHING);
  }

  openSync(path: Path, flags: string | number = "r"): number {
    const bits = typeof flags === "number" ? flags : FLAGS[flags];
    if (bits === undefined) throw new Error(`unknown flags: ${flags}`);
    const given = pathOf(path);
    let file = this.#find(given);
    if (file === undefined) {
      if (!(bits & constants.O_CREAT)) throw fileError("ENOENT", "open", given);
      const { folder, name } = this.#place(given, "open");
      file = this.#disk.newFile(false).id;
      this.#rename([{ folder, name, to: file }]);
    } else if (bits & constants.O_EXCL) throw fileError("EEXIST", "open", given);
    else if (bits & constants.O_TRUNC) this.#change(file, "size", 0, NOTHING);
    this.#open.set(this.#nextFd, { file, isAppending: (bits & constants.O_APPEND) !== 0, offset: 0 });
    return this.#nextFd++;
  }

  closeSync(fd: number): void {
    this.#opened(fd, "close");
    this.#open.delete(fd);
  }

  writeSync(fd: number, data: Bytes, offset = 0, length?: number, position?: number | null): number {
    const open = this.#opened(fd, "write");
    const all = bytesOf(data);
    const bytes = typeof data === "string" ? all : all.subarray(offset, offset + (length ?? all.length));
    const at = open.isAppending ? this.#disk.sizeOf(open.file) : (position ?? open.offset);
    this.#change(open.file, "write", at, bytes);
    open.offset = at + bytes.length;
    return bytes.length;
  }

  fsyncSync(fd: number): void {
    this.#sync(this.#opened(fd, "fsync").file);
  }

  fdatasyncSync(fd: number): void {
    this.fsyncSync(fd);
  }

  readFileSync(path: Path | number, options: Encoding = null): string | Buffer {
    const file = typeof path === "number" ? this.#opened(path, "read").file : this.#existing(path, "open");
    if (this.#isFolder(file)) throw fileError("EISDIR", "read", String(path));
    const content = this.#disk.contentOf(file);
    const encoding = typeof options === "string" ? options : options?.encoding;
    return encoding ? content.toString(encoding) : content;
  }

  writeFileSync(path: Path, data: Bytes, options: { readonly flag?: string } | string | null = {}): void {
    const flag = (typeof options === "string" ? undefined : options?.flag) ?? "w";
    const fd = this.openSync(path, flag);
    this.writeSync(fd, data);
    this.closeSync(fd);
  }

  renameSync(from: Path, to: Path): void {
    const file = this.#existing(from, "rename");
    const [old, place] = [this.#place(pathOf(from), "rename"), this.#place(pathOf(to), "rename")];
    this.#rename([
      { ...old, to: undefined },
      { ...place, to: file },
    ]);
  }

  linkSync(from: Path, to: Path): void {
    const file = this.#existing(from, "link");
    if (this.#find(pathOf(to)) !== undefined) throw fileError("EEXIST", "link", pathOf(to));
    this.#rename([{ ...this.#place(pathOf(to), "link"), to: file }]);
  }

  rmSync(path: Path, { force = false, recursive = false } = {}): void {
    const given = pathOf(path);
    const file = this.#find(given);
    if (file === undefined) {
      if (force) return;
      throw fileError("ENOENT", "rm", given);
    }
    if (this.#isFolder(file)) {
      if (!recursive) throw fileError("EISDIR", "rm", given);
      for (const name of this.#namesIn(file)) this.rmSync(`${given}/${name}`, { recursive });
    }
    this.#rename([{ ...this.#place(given, "rm"), to: undefined }]);
  }

  unlinkSync(path: Path): void {
    this.rmSync(path);
  }

  /** Returns the first folder that it made, as Node does. */
  mkdirSync(
    path: Path,
    options?: { readonly recursive?: boolean | undefined } | number | null,
  ): string | undefined {
    const recursive = typeof options === "object" && options?.recursive === true;
    const given = pathOf(path);
    if (this.#find(given) !== undefined) {
      if (recursive && this.#isFolder(this.#existing(given, "mkdir"))) return undefined;
      throw fileError("EEXIST", "mkdir", given);
    }
    const above = recursive ? this.#makeAbove(given) : undefined;
    this.#rename([{ ...this.#place(given, "mkdir"), to: this.#disk.newFile(true).id }]);
    return recursive ? (above ?? given) : undefined;
  }

  readdirSync(path: Path): string[] {
    const folder = this.#existing(path, "scandir");
    if (!this.#isFolder(folder)) throw fileError("ENOTDIR", "scandir", pathOf(path));
    return this.#namesIn(folder);
  }

  statSync(
    path: Path,
    options: { readonly bigint?: boolean; readonly throwIfNoEntry?: boolean } = {},
  ): FileFacts | undefined {
    const file = this.#find(pathOf(path));
    if (file !== undefined) return this.#facts(file, options.bigint);
    if (options.throwIfNoEntry === false) return undefined;
    throw fileError("ENOENT", "stat", pathOf(path));
  }

  lstatSync(path: Path, options: { readonly bigint?: boolean } = {}): FileFacts | undefined {
    return this.statSync(path, options);
  }

  fstatSync(fd: number, { bigint }: { readonly bigint?: boolean } = {}): FileFacts {
    return this.#facts(this.#opened(fd, "fstat").file, bigint);
  }

  statfsSync(path: Path): { readonly bavail: number; readonly blocks: number; readonly bsize: number } {
    this.#existing(path, "statfs");
    return { bavail: FREE_BLOCKS, blocks: 2 * FREE_BLOCKS, bsize: BLOCK_BYTES };
  }

  accessSync(path: Path): void {
    this.#existing(path, "access");
  }

  existsSync(path: Path): boolean {
    return this.#find(pathOf(path)) !== undefined;
  }

  #facts(file: number, isBig = false): FileFacts {
    const isFolder = this.#isFolder(file);
    const numbers = { ino: file, dev: 1, size: this.#disk.sizeOf(file), uid: process.getuid?.() ?? 0 };
    const kinds = {
      isFile: () => !isFolder,
      isDirectory: () => isFolder,
      isSymbolicLink: () => false,
    };
    const times = { mtimeMs: this.#changedMs.get(file) ?? 0, mode: isFolder ? 0o40700 : 0o100600, nlink: 1 };
    if (!isBig) return { ...numbers, ...times, ...kinds };
    const big = Object.entries({ ...numbers, ...times }).map(([name, value]) => [
      name,
      BigInt(Math.floor(value)),
    ]);
    return { ...(Object.fromEntries(big) as BigFacts), ...kinds };
  }

  #change(file: number, kind: FileChange["kind"], at: number, bytes: Buffer): void {
    if (this.#isFolder(file)) throw fileError("EISDIR", "write", String(file));
    this.#disk.change(file, kind, at, Buffer.from(bytes)).ended = true;
    this.#changedMs.set(file, Date.now());
    this.#observe(`${kind} of file ${file}`, bytes);
  }

  #rename(names: NameChange["names"]): void {
    this.#disk.rename(names).ended = true;
    for (const { folder, name, to = 0 } of names) this.#observe(`name ${folder} ${to}`, Buffer.from(name));
  }

  #sync(file: number): void {
    this.#disk.beginSync(file)();
    this.#observe(`sync of file ${file}`, NOTHING);
  }

  #opened(fd: number, call: string): OpenFile {
    const open = this.#open.get(fd);
    if (open === undefined) throw fileError("EBADF", call, String(fd));
    return open;
  }

  #isFolder(file: number): boolean {
    return this.#disk.files.get(file)!.isFolder;
  }

  /** Throws for a path whose folder is a file. */
  #find(path: string): number | undefined {
    if (path === "/") return this.#disk.root;
    const folder = this.#find(dirname(path));
    if (folder === undefined) return undefined;
    if (!this.#isFolder(folder)) throw fileError("ENOTDIR", "open", path);
    return this.#disk.at(folder, basename(path));
  }

  #existing(path: Path, call: string): number {
    const file = this.#find(pathOf(path));
    if (file === undefined) throw fileError("ENOENT", call, pathOf(path));
    return file;
  }

  #place(path: string, call: string): { readonly folder: number; readonly name: string } {
    const folder = this.#find(dirname(path));
    if (folder === undefined) throw fileError("ENOENT", call, path);
    return { folder, name: basename(path) };
  }

  #makeAbove(path: string): string | undefined {
    return this.mkdirSync(dirname(path), { recursive: true });
  }

  #namesIn(folder: number): string[] {
    const prefix = `${folder}/`;
    const keys = [...this.#disk.names.keys()].filter((key) => key.startsWith(prefix));
    return keys.map((key) => key.slice(prefix.length)).sort();
  }
}

interface FactsOf<N> {
  readonly ino: N;
  readonly dev: N;
  readonly size: N;
  readonly uid: N;
  readonly mtimeMs: N;
  readonly mode: N;
  readonly nlink: N;
}

type BigFacts = FactsOf<bigint>;

/** As `Stats` and `BigIntStats` of Node. */
export type FileFacts = (FactsOf<number> | BigFacts) & {
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
};
