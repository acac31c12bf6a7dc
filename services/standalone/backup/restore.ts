/**
 * Restores a backup into a home without a store. The store is prepared under a temporary name: its owners are superseded, because they know a future
 * that it has lost. It gets its name last, so a kill leaves a home without a store, and the restore is repeated.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { type RestoredStore, supersedeAll } from "../../../shared/records/restored/restored-store.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import { readJson, syncFolder } from "../../../shared/runtime/process/whole-file.ts";
import { readRecord } from "../../../shared/sdk/fleet-home.ts";
import { DATA_FILE } from "../../../shared/store/lmdb/environment-copy.ts";
import { openStore } from "../../../shared/store/open.ts";
import { requireUsableFolder } from "../folder-check.ts";
import { IDENTITY_FILE } from "../identity.ts";
import { lockStore } from "../store-lock.ts";
import { type FleetFolders, removeLocks } from "./backup.ts";
import { type BackupManifest, STORE_FOLDER, verifiedManifest } from "./manifest.ts";

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
/** What a fleet leaves beside the data: its locks. */
const LOCKS = /^(?:fleet|lock.*)$/;
const PREPARED = ".restored";

export interface BackupRestored extends RestoredStore {
  readonly backup_at: string;
  readonly fleet: string | null;
}

/** Throws StartupError; then the home has no store, as before. */
export async function restoreBackup(
  { home, store: named }: FleetFolders,
  folder: string,
): Promise<BackupRestored> {
  // The store may be a link to another disk.
  const store = existsSync(named) ? realpathSync(named) : named;
  const manifest = await verifiedManifest(folder);
  requireUsableFolder(home);
  requireStopped(home);
  // Neither a fleet nor another restore can begin meanwhile.
  const lock = lockStore(`lmdb:${store}`);
  try {
    requireNoState(store);
    requireSameFleet(home, manifest);
    const prepared = `${store}${PREPARED}`;
    rmSync(prepared, { recursive: true, force: true });
    mkdirSync(prepared, { recursive: true, mode: FOLDER_MODE });
    copyPrivate(join(folder, STORE_FOLDER, DATA_FILE), join(prepared, DATA_FILE));
    const restored = await supersedeIn(prepared, manifest.created_at);
    copyMissing(manifest, folder, home);
    rmSync(store, { recursive: true, force: true });
    renameSync(prepared, store);
    syncFolder(dirname(store));
    return { ...restored, backup_at: manifest.created_at, fleet: manifest.fleet };
  } finally {
    lock?.release();
  }
}

async function supersedeIn(folder: string, backupAt: string): Promise<RestoredStore> {
  const store = await openStore(`lmdb:${folder}`);
  try {
    return await supersedeAll(store, { backupAt, nowMs: Date.now() });
  } finally {
    await store.close({ drainMs: 5_000 });
    removeLocks(folder);
  }
}

function requireStopped(home: string): void {
  // The server of a killed fleet may still run; it has no part of the store.
  if (readRecord(home)?.isRunning !== true) return;
  throw new StartupError("a fleet runs in this home", {
    exitCode: exitCodes.unavailable,
    details: { home },
    hint: "stop it first",
  });
}

/** A folder with the locks of a fleet alone is left over from a failed start. Anything else would be removed with it. */
function requireNoState(store: string): void {
  const names = existsSync(store) ? readdirSync(store) : [];
  if (names.every((name) => LOCKS.test(name))) return;
  if (!names.includes(DATA_FILE)) {
    throw new StartupError("the folder of the store holds other files, which a restore would remove", {
      exitCode: exitCodes.cannotCreate,
      details: { store, files: names.filter((name) => !LOCKS.test(name)).slice(0, 10) },
      hint: "move them to another place, or name another folder in FLEET_STORE",
    });
  }
  throw new StartupError("there is a store; a restore would lose what it holds", {
    exitCode: exitCodes.cannotCreate,
    details: { store },
    hint: "move the store to another place if it is damaged, or restore into another home",
  });
}

/** The keys and the bus in the home are those of its fleet. */
function requireSameFleet(home: string, { fleet }: BackupManifest): void {
  const known = readJson<{ fleet?: string }>(join(home, IDENTITY_FILE))?.fleet;
  if (known === undefined || known === fleet) return;
  throw new StartupError("the home belongs to another fleet than the backup", {
    exitCode: exitCodes.cannotCreate,
    details: { home, fleet: known, backup: fleet },
    hint: "restore into an empty home",
  });
}

/** Files of the home stay: the register of credentials may be newer than the backup. */
function copyMissing({ files }: BackupManifest, folder: string, home: string): void {
  for (const { path } of files) {
    const own = join(home, path);
    if (path.startsWith(`${STORE_FOLDER}/`) || existsSync(own)) continue;
    mkdirSync(dirname(own), { recursive: true, mode: FOLDER_MODE });
    copyPrivate(join(folder, path), own);
  }
}

/** The backup may come from a disk with other modes. */
function copyPrivate(from: string, to: string): void {
  copyFileSync(from, to);
  chmodSync(to, FILE_MODE);
}
