/**
 * The archive of a bundle: an uncompressed tar of one exact form. Each header follows from the name, the size and the
 * time of its file, so every byte of the archive is compared, and nothing can be hidden between the files.
 */
import { createHash } from "node:crypto";
import { fstatSync, readSync } from "node:fs";

export const TAR_BLOCK = 512;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:\/[A-Za-z0-9][A-Za-z0-9._-]*)*$/;
const NAME_BYTES_MAX = 99;
const OCTAL_DIGITS = 11;
const MEMBERS_MAX = 4_096;
const READ_BYTES = 262_144;
const LINE_BYTES_MAX = 1_500_000;
const FEED = 0x0a;

export interface ArchiveMember {
  readonly name: string;
  /** The position of its first byte. */
  readonly start: number;
  readonly size: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
}

export interface ReadArchive {
  readonly members: readonly ArchiveMember[];
  /** The position of the first block that is not of the form. null: there is none. */
  readonly fault: number | null;
}

export function isMemberName(name: string): boolean {
  return name.length <= NAME_BYTES_MAX && NAME.test(name);
}

/** The size of the greatest file: 8 GiB less one byte. */
export const MEMBER_BYTES_MAX = 8 ** OCTAL_DIGITS - 1;

/** The header of a regular file: mode 0644, no owner. */
export function tarHeader({ name, size, mtime }: Omit<ArchiveMember, "start">): Buffer {
  const header = Buffer.alloc(TAR_BLOCK);
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, "0")}\0`;
  header.write(name, 0, "latin1");
  header.write(`${octal(0o644, 7)}${octal(0, 7)}${octal(0, 7)}`, 100, "latin1");
  header.write(`${octal(size, OCTAL_DIGITS)}${octal(mtime, OCTAL_DIGITS)}        0`, 124, "latin1");
  header.write("ustar\u000000", 257, "latin1");
  header.write(`${octal(0, 7)}${octal(0, 7)}`, 329, "latin1");
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${octal(sum, 6)} `, 148, "latin1");
  return header;
}

/** The bytes between the end of a file and that of its last block. */
export function paddingOf(size: number): number {
  return (TAR_BLOCK - (size % TAR_BLOCK)) % TAR_BLOCK;
}

/** At most `length` bytes from a position. */
export function archiveBytes(file: number, at: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let got = 0;
  for (let read = -1; read !== 0 && got < length; got += read)
    read = readSync(file, bytes, got, length - got, at + got);
  return bytes.subarray(0, got);
}

const isZero = (bytes: Buffer): boolean => bytes.every((byte) => byte === 0);

function numberAt(header: Buffer, at: number): number | null {
  const text = header.toString("latin1", at, at + OCTAL_DIGITS);
  return /^[0-7]{11}$/.test(text) ? Number.parseInt(text, 8) : null;
}

/** The member whose header stands at a position. null: it is none of the form. */
function memberAt(header: Buffer, at: number): ArchiveMember | null {
  const end = header.indexOf(0);
  const name = header.toString("latin1", 0, Math.max(0, end));
  const [size, mtime] = [numberAt(header, 124), numberAt(header, 136)];
  if (header.length < TAR_BLOCK || !isMemberName(name) || size === null || mtime === null) return null;
  return tarHeader({ name, size, mtime }).equals(header)
    ? { name, start: at + TAR_BLOCK, size, mtime }
    : null;
}

export function readArchive(file: number): ReadArchive {
  const { size: total } = fstatSync(file);
  const members: ArchiveMember[] = [];
  const names = new Set<string>();
  for (let at = 0; ; ) {
    const header = archiveBytes(file, at, TAR_BLOCK);
    if (header.length === TAR_BLOCK && isZero(header)) {
      const isEnd = total === at + 2 * TAR_BLOCK && isZero(archiveBytes(file, at + TAR_BLOCK, TAR_BLOCK));
      return { members, fault: isEnd ? null : at };
    }
    const member = memberAt(header, at);
    // Names that differ in case alone are one file on some systems.
    const name = member?.name.toLowerCase() ?? "";
    if (member === null || names.has(name) || members.length >= MEMBERS_MAX) return { members, fault: at };
    const end = member.start + member.size;
    const padding = archiveBytes(file, end, paddingOf(member.size));
    if (end > total || padding.length < paddingOf(member.size) || !isZero(padding))
      return { members, fault: at };
    names.add(name);
    members.push(member);
    at = end + padding.length;
  }
}

/** The SHA-256 of a file, in hex. */
export function memberHash(file: number, { start, size }: ArchiveMember): string {
  const hash = createHash("sha256");
  for (let at = 0; at < size; at += READ_BYTES)
    hash.update(archiveBytes(file, start + at, Math.min(READ_BYTES, size - at)));
  return hash.digest("hex");
}

/** The lines of a file, without their line feeds. The last one is null if it has no line feed, or a line is too long. */
export function* memberLines(file: number, { start, size }: ArchiveMember): Generator<Buffer | null> {
  let rest = Buffer.alloc(0);
  for (let at = 0; at < size; at += READ_BYTES) {
    const chunk = archiveBytes(file, start + at, Math.min(READ_BYTES, size - at));
    let begin = 0;
    for (let feed = chunk.indexOf(FEED); feed >= 0; feed = chunk.indexOf(FEED, begin)) {
      const line = Buffer.concat([rest, chunk.subarray(begin, feed)]);
      rest = Buffer.alloc(0);
      begin = feed + 1;
      if (line.length > LINE_BYTES_MAX) return yield null;
      yield line;
    }
    rest = Buffer.concat([rest, chunk.subarray(begin)]);
    if (rest.length > LINE_BYTES_MAX) return yield null;
  }
  if (rest.length > 0) yield null;
}

/** The text of a file of one line, without its line feed. null: it is too long, or has another number of lines. */
export function onlyLine(file: number, member: ArchiveMember, most: number): Buffer | null {
  if (member.size > most) return null;
  const bytes = archiveBytes(file, member.start, member.size);
  return bytes.indexOf(FEED) === bytes.length - 1 ? bytes.subarray(0, -1) : null;
}
