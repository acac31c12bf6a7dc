// The states in which a power cut may leave a recorded disk. Any of them is one that a file system may show afterwards.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { seededRandom } from "../../../load/workload.ts";
import {
  applied,
  type FileChange,
  type NameChange,
  nameKey,
  type RecordedDisk,
  type RecordedFile,
  setName,
  sizeAfter,
} from "./disk.ts";

/** The unit that a disk writes whole, and the unit in which the system does. */
const SECTORS = [512, 4_096];

/** A number from 0 to below `below`. */
export type Random = (below: number) => number;

export function randomOf(seed: number): Random {
  const random = seededRandom(seed);
  return (below) => Math.floor(random() * below);
}

/** Writes one such state below `to`. Returns what it kept, in words. */
export function writeAfterCut(disk: RecordedDisk, random: Random, to: string): void {
  const names = namesAfterCut(disk, random);
  writeFolder(disk.root, to);

  function writeFolder(folder: number, path: string): void {
    mkdirSync(path, { mode: 0o700 });
    for (const [key, id] of names) {
      if (!key.startsWith(`${folder}/`)) continue;
      const file = disk.files.get(id)!;
      const own = join(path, key.slice(`${folder}/`.length));
      if (file.isFolder) writeFolder(id, own);
      else writeFileSync(own, contentAfterCut(file, random), { mode: 0o600 });
    }
  }
}

/** Brings the disk itself into one such state. */
export function cutPower(disk: RecordedDisk, random: Random): void {
  disk.restart(namesAfterCut(disk, random), (file) => contentAfterCut(file, random));
}

/** `folder/name` → file. */
function namesAfterCut(disk: RecordedDisk, random: Random): Map<string, number> {
  const changes = disk.nameChanges;
  const cut = random(changes.length + 1);
  const isKept = chosen<NameChange>(random, [
    () => false,
    () => true,
    (_, i) => i < cut,
    () => random(2) === 0,
  ]);
  const kept = changes.map((change, i) => change.synced || isKept(change, i));
  // Changes of one name reach the disk in their order, and a rename does with both of its names.
  const needed = new Set<string>();
  for (let i = changes.length - 1; i >= 0; i -= 1) {
    const keys = changes[i]!.names.map(({ folder, name }) => nameKey(folder, name));
    kept[i] ||= keys.some((key) => needed.has(key));
    if (kept[i]) for (const key of keys) needed.add(key);
  }
  const names = new Map(disk.durableNames);
  for (const [i, change] of changes.entries()) {
    if (!kept[i]) continue;
    for (const { folder, name, to } of change.names) setName(names, nameKey(folder, name), to);
  }
  return names;
}

function contentAfterCut({ durable, changes }: RecordedFile, random: Random): Buffer {
  const content = Buffer.from(durable);
  if (changes.length === 0) return content;
  const cut = random(changes.length + 1);
  const isKept = chosen<FileChange>(random, [
    () => false,
    () => true,
    (_, i) => i < cut,
    () => random(2) === 0,
  ]);
  // A new size stands between the writes before it and those behind it.
  const last = changes.findLastIndex(
    (change, i) => change.kind === "size" && (change.synced || isKept(change, i)),
  );
  const settled = changes.slice(0, last + 1).reduce(applied, content);
  const later = changes.slice(last + 1).filter(({ kind }) => kind === "write");
  const unit = SECTORS[random(SECTORS.length)]!;
  const isTorn = random(2) === 0;
  return withWrites(settled, later, { unit, isKept: isTorn ? () => random(2) === 0 : isKept });
}

interface Choice {
  readonly unit: number;
  readonly isKept: (change: FileChange, index: number) => boolean;
}

/** Each sector has its content after one of the writes to it, and the size is that of any write, but both never of an earlier one than the last sync. */
function withWrites(settled: Buffer, writes: readonly FileChange[], { unit, isKept }: Choice): Buffer {
  const isThere = (change: FileChange, i: number) => change.synced || isKept(change, i);
  const size = writes.filter(isThere).reduce(sizeAfter, settled.length);
  const whole = Buffer.concat([
    settled,
    Buffer.alloc(writes.reduce(sizeAfter, settled.length) - settled.length),
  ]);
  const bySector = new Map<number, number[]>();
  for (const [i, { at, bytes }] of writes.entries())
    for (let sector = Math.floor(at / unit); sector * unit < at + bytes.length; sector += 1)
      bySector.set(sector, [...(bySector.get(sector) ?? []), i]);
  for (const [sector, of] of bySector) {
    const last = of.findLastIndex((i) => isThere(writes[i]!, i));
    for (const i of of.slice(0, last + 1))
      copyWithin(whole, writes[i]!, { from: sector * unit, to: (sector + 1) * unit });
  }
  return whole.subarray(0, size);
}

function copyWithin(
  content: Buffer,
  { at, bytes }: FileChange,
  { from, to }: { from: number; to: number },
): void {
  const begin = Math.max(at, from);
  const end = Math.min(at + bytes.length, to);
  bytes.copy(content, begin, begin - at, end - at);
}

const chosen = <T>(random: Random, all: readonly ((change: T, index: number) => boolean)[]) =>
  all[random(all.length)]!;
