// Carries the recorded calls out on a recorded disk, one moment after the other.

import { basename, dirname, isAbsolute, join } from "node:path";
import { type FileChange, type NameChange, RecordedDisk } from "./disk.ts";
import type { Moment, Recording } from "./recorder.ts";
import { bytesOf, descriptorOf, type SystemCall } from "./strace-log.ts";

/** What a descriptor leads to. Copies of a descriptor share it. */
interface OpenFile {
  readonly file: number;
  readonly isAppending: boolean;
  /** Each write is on the disk when it returns. */
  readonly isSynced: boolean;
  offset: number;
}

/** The ways to bring changes to the disk. */
export type SyncKind = "of files" | "of folders" | "of each write";

const STANDARD_OUTPUT = 1;
type Names = NameChange["names"];

export class Playback {
  readonly disk = new RecordedDisk();
  /** The files that a program also wrote through memory, which no recorder of calls sees. */
  readonly mapped = new Set<number>();
  readonly #root: string;
  readonly #without: SyncKind | undefined;
  /** Process → descriptor → file. */
  readonly #open = new Map<number, Map<number, OpenFile>>();
  readonly #ends = new Map<SystemCall, () => void>();
  #printed = "";

  /** `without`: these syncs have no effect. */
  constructor({ root }: Pick<Recording, "root">, without?: SyncKind) {
    this.#root = root;
    this.#without = without;
  }

  /** The lines that the programs had begun to print. */
  get printed(): string[] {
    return this.#printed.split("\n").slice(0, -1);
  }

  /** False when the moment concerned nothing of the folder. */
  step({ call, isEnd }: Moment): boolean {
    // A call that failed changed nothing. One that never returned may have.
    if (call.result < 0 && call.end !== Number.POSITIVE_INFINITY) return false;
    if (isEnd) {
      this.#ends.get(call)?.();
      return this.#ends.delete(call);
    }
    const lines = this.#printed.length;
    const end = this.#begin(call);
    if (end !== undefined) this.#ends.set(call, end);
    return end !== undefined || this.#printed.length > lines;
  }

  /** Returns what happens at the end of the call. */
  #begin(call: SystemCall): (() => void) | undefined {
    const { name, args } = call;
    if (/^(open|creat)/.test(name)) return this.#beginOpen(call);
    if (/^(dup|fcntl|close$|clone|fork|vfork|lseek)/.test(name)) return this.#beginDescriptor(call);
    if (/^p?write/.test(name)) return this.#beginWrite(call);
    if (/^(rename|link|unlink|mkdir|rmdir|symlink)/.test(name)) return this.#beginNames(call);
    if (name === "fsync" || name === "fdatasync") {
      const open = this.#opened(call, 0);
      if (open === undefined) return undefined;
      const kind = this.disk.files.get(open.file)!.isFolder ? "of folders" : "of files";
      return kind === this.#without ? () => {} : this.disk.beginSync(open.file);
    }
    if (name === "ftruncate" || name === "fallocate") {
      const open = this.#opened(call, 0);
      if (open === undefined) return undefined;
      if (name === "fallocate" && args[1] !== "0") throw new Error(`unknown call: ${name}(${args.join()})`);
      const size = name === "ftruncate" ? Number(args[1]) : Number(args[2]) + Number(args[3]);
      if (name === "fallocate" && size <= this.disk.sizeOf(open.file)) return undefined;
      return this.#changing(this.disk.change(open.file, "size", size, Buffer.alloc(0)));
    }
    if (name === "mmap") {
      const isWritten = args[2]!.includes("PROT_WRITE") && args[3]!.includes("MAP_SHARED");
      const open = isWritten ? this.#opened(call, 4) : undefined;
      if (open !== undefined) this.mapped.add(open.file);
      return undefined;
    }
    const out = { copy_file_range: 2, sendfile: 0, splice: 2 }[name];
    const isUnknown =
      out === undefined ? name === "truncate" && this.#isOwn(args[0]!) : this.#opened(call, out);
    if (isUnknown) throw new Error(`unknown call: ${name}(${args.join()})`);
    return undefined;
  }

  #beginOpen({ pid, name, args, result }: SystemCall): (() => void) | undefined {
    const at = name.startsWith("openat") ? 1 : 0;
    const [path = ""] = pathsOf(args.slice(0, at + 1));
    if (!this.#isOwn(path)) return undefined;
    const flags = name === "creat" ? "O_WRONLY|O_CREAT|O_TRUNC" : args[at + 1]!;
    let file = this.#find(path);
    const ends: (() => void)[] = [];
    if (file === undefined) {
      if (!flags.includes("O_CREAT")) throw new Error(`${path} was opened before the recording saw it`);
      file = this.disk.newFile(false).id;
      ends.push(this.#changing(this.disk.rename([{ ...this.#place(path), to: file }])));
    } else if (flags.includes("O_TRUNC") && this.disk.sizeOf(file) > 0) {
      ends.push(this.#changing(this.disk.change(file, "size", 0, Buffer.alloc(0))));
    }
    const open = {
      file,
      isAppending: flags.includes("O_APPEND"),
      isSynced: /O_D?SYNC/.test(flags),
      offset: 0,
    };
    return () => {
      for (const end of ends) end();
      this.#descriptors(pid).set(result, open);
    };
  }

  #beginDescriptor({ pid, name, args, result }: SystemCall): (() => void) | undefined {
    const own = this.#descriptors(pid);
    if (/^(clone|fork|vfork)/.test(name)) {
      if (result > 0 && !args.join().includes("CLONE_THREAD")) this.#open.set(result, new Map(own));
      return undefined;
    }
    const { fd } = descriptorOf(args[0]!);
    const open = own.get(fd);
    if (name === "close") own.delete(fd);
    if (open === undefined) return undefined;
    if (name === "lseek")
      return () => {
        open.offset = result;
      };
    const isCopy = name.startsWith("dup") || (name === "fcntl" && args[1]!.startsWith("F_DUPFD"));
    return isCopy ? () => void own.set(result, open) : undefined;
  }

  #beginWrite(call: SystemCall): (() => void) | undefined {
    const { name, args, result } = call;
    const { fd, path } = descriptorOf(args[0]!);
    if (fd === STANDARD_OUTPUT && /^(pipe|socket):/.test(path)) {
      this.#printed += bytesOf(args[1]!).toString();
      return undefined;
    }
    const open = this.#opened(call, 0);
    if (open === undefined) return undefined;
    const { file } = open;
    const hasOffset = name.startsWith("p");
    const at = hasOffset ? Number(args[3]) : open.isAppending ? this.disk.sizeOf(file) : open.offset;
    const bytes = bytesOf(args[1]!);
    const change = this.disk.change(file, "write", at, result < 0 ? bytes : bytes.subarray(0, result));
    if (!hasOffset) open.offset = at + change.bytes.length;
    return () => {
      change.ended = true;
      if (open.isSynced && this.#without !== "of each write") this.disk.synced(file, change);
    };
  }

  #beginNames({ name, args }: SystemCall): (() => void) | undefined {
    const paths = pathsOf(args);
    if (!paths.some((path) => this.#isOwn(path))) return undefined;
    const [from, to] = paths.map((path) => this.#place(path));
    const file = this.#find(paths[0]!);
    if (name === "mkdir" || name === "mkdirat")
      return this.#renamed([{ ...from!, to: this.disk.newFile(true).id }]);
    if (name.startsWith("unlink") || name === "rmdir") return this.#renamed([{ ...from!, to: undefined }]);
    const isPlain = !args.some((arg) => /RENAME_EXCHANGE|RENAME_WHITEOUT/.test(arg));
    if (name.startsWith("rename") && isPlain)
      return this.#renamed([
        { ...from!, to: undefined },
        { ...to!, to: file },
      ]);
    if (name.startsWith("link")) return this.#renamed([{ ...to!, to: file }]);
    throw new Error(`unknown call: ${name}(${paths.join()})`);
  }

  #renamed(names: Names): () => void {
    return this.#changing(this.disk.rename(names));
  }

  #changing(change: FileChange | NameChange): () => void {
    return () => {
      change.ended = true;
    };
  }

  /** The file of a descriptor; undefined: it leads out of the folder. */
  #opened({ pid, name, args }: SystemCall, index: number): OpenFile | undefined {
    const { fd, path } = descriptorOf(args[index]!);
    const own = this.#descriptors(pid);
    if (!this.#isOwn(path)) {
      own.delete(fd);
      return undefined;
    }
    const open = own.get(fd);
    if (open === undefined)
      throw new Error(`${name}: the recording has no opening of ${fd}, which is ${path}`);
    return open;
  }

  #descriptors(pid: number): Map<number, OpenFile> {
    const own = this.#open.get(pid) ?? new Map<number, OpenFile>();
    this.#open.set(pid, own);
    return own;
  }

  #isOwn(path: string): boolean {
    return path === this.#root || path.startsWith(`${this.#root}/`);
  }

  #find(path: string): number | undefined {
    if (path === this.#root) return this.disk.root;
    const folder = this.#find(dirname(path));
    return folder === undefined ? undefined : this.disk.at(folder, basename(path));
  }

  #place(path: string): { readonly folder: number; readonly name: string } {
    const folder = this.#find(dirname(path));
    if (folder === undefined) throw new Error(`the recording has no folder of ${path}`);
    return { folder, name: basename(path) };
  }
}

/** The paths of a call. A relative one begins at the folder of the descriptor in front of it. */
const pathsOf = (args: readonly string[]): string[] =>
  args.flatMap((arg, i) => {
    if (!arg.startsWith('"')) return [];
    const path = bytesOf(arg).toString();
    return [isAbsolute(path) || i === 0 ? path : join(descriptorOf(args[i - 1]!).path, path)];
  });
