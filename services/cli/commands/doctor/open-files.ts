// Files of a fleet on this machine that other users may read or write.

import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { ACCESS_FOLDER } from "../../../../shared/bus/access/local-credentials.ts";
import type { Environment } from "../../../../shared/runtime/settings/config.ts";
import { CLIENT_FOLDER } from "../../../../shared/sdk/fleet-home.ts";
import { spoolRoot } from "../../../../shared/sdk/spool/places.ts";

export interface OpenFile {
  readonly path: string;
  readonly mode: number;
  /** `secret`: others may read keys or unsent work. `writable`: others may change the file. */
  readonly why: "secret" | "writable";
  /** Whether it belongs to another user than the one that runs the command. */
  readonly foreign: boolean;
}

const OTHERS_READ = 0o044;
const OTHERS_WRITE = 0o022;
const OTHERS_ENTER = 0o011;
/** Settings that name a file with a secret. */
const SECRET_FILES = ["FLEET_NATS_CREDS", "FLEET_NATS_TOKEN_FILE", "FLEET_NATS_KEY"] as const;
/** Settings that list sources of keys, among them files. */
const KEY_LISTS = ["FLEET_ENCRYPTION_KEY", "FLEET_SPOOL_KEY"] as const;

/** Folders in a home with keys or work. */
const PRIVATE_FOLDERS = [
  ACCESS_FOLDER,
  join(CLIENT_FOLDER, ACCESS_FOLDER),
  "tls",
  "gateway",
  "store",
  join("nats", "store"),
  "checkpoints",
  "artifacts",
];
/** A lock names a process, and nothing else. */
const isLock = (name: string): boolean => name.startsWith("lock.");

/** Files with keys, the home itself, the spools, and the files that settings name. Windows has no such modes. */
export function findOpenFiles(home: string | undefined, env: Environment): OpenFile[] {
  if (process.platform === "win32") return [];
  const keys = KEY_LISTS.flatMap((name) => (env[name] ?? "").split(","));
  const named = [
    ...SECRET_FILES.flatMap((name) => env[name] ?? []),
    ...keys.flatMap((source) => /^file:(.+)$/.exec(source.trim())?.[1] ?? []),
  ];
  const folders = home === undefined || isClosed(home) ? [] : PRIVATE_FOLDERS.map((name) => join(home, name));
  return [
    ...(home === undefined ? [] : judged(home, false)),
    ...[...folders, env.FLEET_SPOOL_DIR ?? spoolRoot(env)].flatMap(foldersWithSecrets),
    ...named.flatMap((path) => judged(path, true)),
  ];
}

/** A folder that others cannot enter protects everything in it. */
const isClosed = (folder: string): boolean => ((modeOf(folder) ?? OTHERS_ENTER) & OTHERS_ENTER) === 0;

function foldersWithSecrets(folder: string): OpenFile[] {
  if (isClosed(folder)) return judged(folder, false);
  const names = namesIn(folder).filter((name) => !isLock(name));
  return [...judged(folder, false), ...names.flatMap((name) => judged(join(folder, name), true))];
}

function judged(path: string, isSecret: boolean): OpenFile[] {
  const mode = modeOf(path);
  if (mode === undefined || isPublic(path)) return [];
  const { uid } = lstatSync(path);
  const foreign = uid !== process.geteuid?.() && uid !== 0;
  if ((mode & OTHERS_WRITE) !== 0 || foreign) return [{ path, mode, why: "writable", foreign }];
  return isSecret && (mode & OTHERS_READ) !== 0 ? [{ path, mode, why: "secret", foreign }] : [];
}

/** Certificates and public names are for all. */
const isPublic = (path: string): boolean => /\.(?:pem|pub|crt)$/.test(path) && !/key/i.test(path);

function modeOf(path: string): number | undefined {
  try {
    const stats = lstatSync(path);
    // The mode of a link is not its target's, which its own folder protects.
    return stats.isSymbolicLink() ? undefined : stats.mode & 0o777;
  } catch {
    return undefined;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
