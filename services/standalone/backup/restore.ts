/**
 * Restores a backup into a home without a store. The data is prepared in a folder within that of the store: its owners are superseded, because they
 * know a future that it has lost. It is moved to its place last, in one step, so a kill leaves a store without data, which no service opens, and the
 * restore is repeated. The folder of the store itself stays: it may be a mount point.
 */
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import { readJson, syncFolder, writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { readRecord } from "../../../shared/sdk/fleet-home.ts";
import { openEncryptionOf } from "../../../shared/service-host/store/encryption.ts";
import { DATA_FILE } from "../../../shared/store/lmdb/environment.ts";
import { preparedFolder } from "../../../shared/store/lmdb/prepared-restore.ts";
import { openStore } from "../../../shared/store/open.ts";
import { requireUsableFolder } from "../folder-check.ts";
import { IDENTITY_FILE } from "../identity.ts";
import { lockStore } from "../store-lock.ts";
import { type FleetFolders, removeLocks } from "./backup.ts";
import { type BackupManifest, ROWS_COPIED, STORE_FOLDER, verifiedManifest } from "./manifest.ts";
import {
  type RestoredBackup,
  type RestoreKeys,
  type SignedRestore,
  supersedeSigned,
} from "./signed-restore.ts";

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
/** The readers of a store that is gone. */
const READERS_FILE = "lock.mdb";

export interface BackupRestored extends SignedRestore {
  readonly backup_at: string;
  readonly fleet: string | null;
}

/** Throws an error; then the home has no store, and gets none until the restore is repeated or its folder removed. */
export async function restoreBackup(
  {
    home,
    store,
    signingKeyFile,
    encryptionKeys,
  }: FleetFolders & Pick<RestoreKeys, "signingKeyFile" | "encryptionKeys">,
  folder: string,
  person: string,
): Promise<BackupRestored> {
  const manifest = await verifiedManifest(folder);
  requireUsableFolder(home);
  requireStopped(home);
  // Neither a fleet nor another restore can begin meanwhile.
  const lock = lockStore(`lmdb:${store}`);
  try {
    requireNoStore(store);
    requireSameFleet(home, manifest);
    const data = join(folder, STORE_FOLDER, DATA_FILE);
    const backup = { backupAt: manifest.created_at, isOfRows: manifest.copied === ROWS_COPIED, person };
    const restored = await prepare(store, data, backup, { home, signingKeyFile, encryptionKeys });
    copyMissing(manifest, folder, home);
    moveToPlace(store);
    return { ...restored, backup_at: manifest.created_at, fleet: manifest.fleet };
  } finally {
    lock?.release();
  }
}

async function prepare(
  store: string,
  data: string,
  backup: RestoredBackup,
  keys: RestoreKeys,
): Promise<SignedRestore> {
  const prepared = preparedFolder(store);
  rmSync(prepared, { recursive: true, force: true });
  // From here on, no service begins an empty store, also after a failure.
  mkdirSync(prepared, { mode: FOLDER_MODE });
  syncFolder(store);
  try {
    copyPrivate(data, join(prepared, DATA_FILE));
    return await supersedeIn(prepared, backup, keys);
  } catch (error) {
    rmSync(join(prepared, DATA_FILE), { force: true });
    throw error;
  }
}

function moveToPlace(store: string): void {
  const prepared = preparedFolder(store);
  requireNoStore(store);
  rmSync(join(store, READERS_FILE), { force: true });
  renameSync(join(prepared, DATA_FILE), join(store, DATA_FILE));
  syncFolder(store);
  rmSync(prepared, { recursive: true });
}

async function supersedeIn(
  folder: string,
  backup: RestoredBackup,
  keys: RestoreKeys,
): Promise<SignedRestore> {
  const url = `lmdb:${folder}`;
  const engine = await openStore(url);
  try {
    const { store } = await openEncryptionOf(engine, url, keys.encryptionKeys);
    return await supersedeSigned(store, backup, keys);
  } finally {
    await engine.close({ drainMs: 5_000 });
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

function requireNoStore(store: string): void {
  if (!existsSync(join(store, DATA_FILE))) return;
  throw new StartupError("there is a store; a restore would lose what it holds", {
    exitCode: ERROR_TABLE.CONFLICT.exit,
    details: { store },
    hint: `move ${join(store, DATA_FILE)} to another place if it is damaged, or restore into another home`,
  });
}

/** The keys and the bus in the home are those of its fleet. */
function requireSameFleet(home: string, { fleet }: BackupManifest): void {
  const known = readJson<{ fleet?: string }>(join(home, IDENTITY_FILE))?.fleet;
  if (known === undefined || known === fleet) return;
  throw new StartupError("the home belongs to another fleet than the backup", {
    exitCode: ERROR_TABLE.CONFLICT.exit,
    details: { home, fleet: known, backup: fleet },
    hint: "restore into an empty home",
  });
}

/** Files of the home stay: the register of credentials may be newer than the backup. Each is written whole, because a repeated call keeps it. */
function copyMissing({ files }: BackupManifest, folder: string, home: string): void {
  for (const { path } of files) {
    const own = join(home, path);
    if (path.startsWith(`${STORE_FOLDER}/`) || existsSync(own)) continue;
    mkdirSync(dirname(own), { recursive: true, mode: FOLDER_MODE });
    writeWhole(own, readFileSync(join(folder, path)));
  }
}

/** The backup may come from a disk with other modes. The copy is on the disk. */
function copyPrivate(from: string, to: string): void {
  copyFileSync(from, to);
  chmodSync(to, FILE_MODE);
  const file = openSync(to, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
