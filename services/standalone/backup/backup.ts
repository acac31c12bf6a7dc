/**
 * A backup of a standalone fleet: a consistent copy of its store, which may be in use, with its identity and its keys. It is made under a temporary
 * name, read again, and renamed when it is whole, so a kill leaves no folder that looks like a backup.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { ACCESS_FOLDER } from "../../../shared/bus/access/local-credentials.ts";
import { readFormat } from "../../../shared/records/kv/format.ts";
import { packageVersion } from "../../../shared/runtime/process/installation.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import { readJson, syncFolder, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { DATA_FILE } from "../../../shared/store/lmdb/environment.ts";
import { copyEnvironment } from "../../../shared/store/lmdb/environment-copy.ts";
import { openStore } from "../../../shared/store/open.ts";
import { IDENTITY_FILE } from "../identity.ts";
import {
  BACKUP_FORMAT,
  type BackupManifest,
  describedFile,
  MANIFEST_FILE,
  ROWS_COPIED,
  STORE_FOLDER,
  sealedManifest,
  verifiedManifest,
} from "./manifest.ts";

const OWNER_ONLY = 0o600;
const FOLDER_MODE = 0o700;
const PART = ".part";

export interface FleetFolders {
  readonly home: string;
  /** The folder of the LMDB environment. */
  readonly store: string;
}

/** Throws StartupError; then there is no backup in `target`. */
export async function makeBackup({ home, store }: FleetFolders, folder: string): Promise<BackupManifest> {
  const target = resolve(folder);
  if (existsSync(target)) throw taken(target);
  // An error about its permissions is no missing store.
  if (statSync(join(store, DATA_FILE), { throwIfNoEntry: false }) === undefined)
    throw new StartupError("there is no store to back up", {
      exitCode: exitCodes.unavailable,
      details: { store },
      hint: "set FLEET_HOME (and FLEET_STORE, if the fleet has it); FoundationDB has tools of its own",
    });
  const above = dirname(target);
  mkdirSync(above, { recursive: true, mode: FOLDER_MODE });
  removeParts(above, basename(target));
  const part = join(above, `${basename(target)}.${process.pid}${PART}`);
  try {
    mkdirSync(part, { mode: FOLDER_MODE });
    // The clock first: what the copy holds is not older.
    const createdAt = new Date().toISOString();
    await copyEnvironment(store, join(part, STORE_FOLDER));
    const files = [join(STORE_FOLDER, DATA_FILE), ...copyKeys(home, part)];
    for (const path of files) chmodSync(join(part, path), OWNER_ONLY);
    const format = await formatOf(join(part, STORE_FOLDER));
    const described = [];
    for (const path of files) described.push(await describedFile(part, path));
    const fleet = readJson<{ fleet?: string }>(join(part, IDENTITY_FILE))?.fleet ?? null;
    const { layout, incarnation } = format;
    const about = { fleet, version: packageVersion(), layout, incarnation, copied: ROWS_COPIED } as const;
    const manifest = sealedManifest({
      ...{ format: BACKUP_FORMAT, created_at: createdAt, ...about, files: described },
    });
    writeWhole(join(part, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`);
    const verified = await verifiedManifest(part);
    if (existsSync(target)) throw taken(target);
    renameSync(part, target);
    syncFolder(above);
    return verified;
  } catch (error) {
    rmSync(part, { recursive: true, force: true });
    throw error;
  }
}

/** Left over from killed backups of this name. */
function removeParts(folder: string, name: string): void {
  for (const entry of readdirSync(folder)) {
    const pid =
      entry.startsWith(`${name}.`) && entry.endsWith(PART) ? entry.slice(name.length + 1, -PART.length) : "";
    if (/^\d+$/.test(pid) && !isRunning(Number(pid)))
      rmSync(join(folder, entry), { recursive: true, force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Without them, the credentials of agents and the commands that wait on their disks would be worthless after a restore. */
function copyKeys(home: string, part: string): string[] {
  const access = join(home, ACCESS_FOLDER);
  const names = existsSync(access)
    ? readdirSync(access, { withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ name }) => join(ACCESS_FOLDER, name))
    : [];
  if (names.length > 0) mkdirSync(join(part, ACCESS_FOLDER), { mode: FOLDER_MODE });
  const paths = [...(existsSync(join(home, IDENTITY_FILE)) ? [IDENTITY_FILE] : []), ...names];
  for (const path of paths) copyFileSync(join(home, path), join(part, path));
  return paths;
}

/** The copy can be opened, and holds data of Fleet. What the opening leaves beside it is removed. */
async function formatOf(folder: string) {
  const store = await openStore(`lmdb:${folder}`);
  try {
    const format = await readFormat(store);
    if (format !== null) return format;
    throw new StartupError("the store holds no data of Fleet", { exitCode: exitCodes.unavailable });
  } finally {
    await store.close({ drainMs: 0 });
    removeLocks(folder);
  }
}

export function removeLocks(folder: string): void {
  for (const name of readdirSync(folder))
    if (name !== DATA_FILE) rmSync(join(folder, name), { recursive: true, force: true });
}

function taken(target: string): StartupError {
  return new StartupError("the folder of the backup exists", {
    exitCode: exitCodes.cannotCreate,
    details: { folder: target },
    hint: "name a new folder for each backup, such as one below it",
  });
}
