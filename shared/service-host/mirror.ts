/** The file mirror as services see it: the folder, and the guard of the disk on which it lies. */
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { mirrorSeal, type SealSource } from "../mirror/encryption/mirror-key.ts";
import { MirrorFolder } from "../mirror/folder.ts";
import type { CheckpointCopies } from "../records/corruption/restore.ts";
import type { Clock } from "../runtime/clock.ts";
import { createDiskSpace } from "../runtime/disk-space.ts";
import { ENCRYPTION_KEY } from "./service-settings.ts";

export interface Mirror {
  readonly path: string;
  readonly folder: MirrorFolder;
  readonly seal: SealSource;
  /** False while its disk is low: the rest of the space is for the store and the bus. Throws if the folder cannot be created. */
  hasRoom(): boolean;
}

const OFF = "off";
const OWNER_ONLY = 0o700;

/** undefined: the mirror is switched off. */
export function openMirror(
  {
    mirrorDir,
    home,
    diskMinFree,
    encryptionKeys,
  }: {
    mirrorDir?: string | undefined;
    home?: string;
    diskMinFree?: number | undefined;
    encryptionKeys?: readonly string[] | undefined;
  },
  clock: Clock,
): Mirror | undefined {
  const named = mirrorDir ?? home ?? OFF;
  if (named === OFF) return undefined;
  const path = resolve(named);
  const seal = mirrorSeal(path, encryptionKeys, { setting: ENCRYPTION_KEY, env: process.env });
  let disk: ReturnType<typeof createDiskSpace> | undefined;
  return {
    path,
    seal,
    folder: new MirrorFolder(path, seal),
    hasRoom() {
      mkdirSync(path, { recursive: true, mode: OWNER_ONLY });
      disk ??= createDiskSpace([{ use: "store", path }], { minFreeBytes: diskMinFree, clock });
      return disk.disks().every(({ level }) => level === "ok");
    },
  };
}

/** A copy that cannot be read is none: the checkpoint is then handled as corrupt. */
export function copiesIn(mirror: Mirror | undefined): CheckpointCopies | undefined {
  if (mirror === undefined) return undefined;
  return {
    read: (tenant, task, id) => mirror.folder.read({ tenant, task }, id).catch(() => null),
  };
}
