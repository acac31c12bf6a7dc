/** Writes the archive of a bundle, file after file. The header of a file is written last, when its size is known. */
import { createHash, type Hash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { FleetError } from "../../protocol/errors.ts";
import { type ArchiveMember, MEMBER_BYTES_MAX, paddingOf, TAR_BLOCK, tarHeader } from "./offline/archive.ts";

/** A file as the manifest lists it. */
export interface ListedFile {
  readonly name: string;
  readonly size: number;
  readonly sha256: string;
}

export class ArchiveWriter {
  readonly #file: FileHandle;
  readonly #listed: ListedFile[] = [];
  readonly #members: ArchiveMember[] = [];
  #at = 0;
  #open: { readonly name: string; readonly start: number; readonly hash: Hash } | null = null;
  /** Seconds since the epoch, of all files. */
  mtime = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** The ended files, in their order. */
  get listed(): readonly ListedFile[] {
    return this.#listed;
  }

  member(name: string): ArchiveMember {
    return this.#members.find((one) => one.name === name)!;
  }

  begin(name: string): void {
    this.#at += TAR_BLOCK;
    this.#open = { name, start: this.#at, hash: createHash("sha256") };
  }

  async append(bytes: Uint8Array): Promise<void> {
    this.#open!.hash.update(bytes);
    await this.#write(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** Throws TOO_LARGE for a file of 8 GiB. */
  async end(): Promise<void> {
    const { name, start, hash } = this.#open!;
    const size = this.#at - start;
    if (size > MEMBER_BYTES_MAX)
      throw new FleetError("TOO_LARGE", "the file is too large for a bundle; export fewer tasks", {
        details: { file: name, bytes: size, max: MEMBER_BYTES_MAX },
      });
    const member = { name, start, size, mtime: this.mtime };
    await this.#write(Buffer.alloc(paddingOf(size)), this.#at);
    await this.#write(tarHeader(member), start - TAR_BLOCK);
    this.#at += paddingOf(size);
    this.#members.push(member);
    this.#listed.push({ name, size, sha256: hash.digest("hex") });
    this.#open = null;
  }

  async add(name: string, bytes: Uint8Array): Promise<void> {
    this.begin(name);
    await this.append(bytes);
    await this.end();
  }

  /** Ends the archive. */
  async finish(): Promise<void> {
    await this.#write(Buffer.alloc(2 * TAR_BLOCK), this.#at);
  }

  async #write(bytes: Uint8Array, at: number): Promise<void> {
    for (let from = 0; from < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, from, bytes.length - from, at + from);
      from += bytesWritten;
    }
  }
}
