/**
 * The manifest of a backup: what it holds, with size and hash of each file, and the hash of the manifest itself. It is written last, so a folder
 * without it is no backup. The hashes show damage. They prove no origin: a program that can write the folder can also write its hashes.
 */
import { createHash } from "node:crypto";
import { createReadStream, lstatSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { ACCESS_FOLDER } from "../../../shared/bus/access/local-credentials.ts";
import { canonicalText, sha256Hex } from "../../../shared/integrity/canonical.ts";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { StartupError } from "../../../shared/runtime/process/startup.ts";
import { DATA_FILE } from "../../../shared/store/lmdb/environment.ts";
import { IDENTITY_FILE } from "../identity.ts";

export const MANIFEST_FILE = "manifest.json";
export const BACKUP_FORMAT = 2;
/** Manifests of this format have no hash of their own; a restore still reads them. */
const UNSEALED_FORMAT = 1;
/** The copy has the rows of the store, and no page of its file: so no byte of a row that was removed or replaced before. */
export const ROWS_COPIED = "rows";
/** The folder of the store in a backup. */
export const STORE_FOLDER = "store";

export interface BackupFile {
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

export interface BackupManifest {
  readonly format: number;
  /** The store as it was at this time, or a moment later. ISO 8601. */
  readonly created_at: string;
  /** The identity of the fleet. */
  readonly fleet: string | null;
  /** The version of Fleet that made the backup. */
  readonly version: string;
  /** Of the store. */
  readonly layout: number;
  readonly incarnation: number;
  /** Absent: the version before copied rows too, and did not state it; earlier ones copied the pages of the store's file, free ones too. */
  readonly copied?: typeof ROWS_COPIED;
  readonly files: readonly BackupFile[];
  /** The SHA-256 of the canonical text (RFC 8785) of the members above, and so of all files. Absent in format 1. */
  readonly hash?: string;
}

export function sealedManifest(content: Omit<BackupManifest, "hash">): BackupManifest {
  return { ...content, hash: hashOf(content) };
}

const hashOf = (content: object): string => sha256Hex(canonicalText(content));

export async function describedFile(folder: string, path: string): Promise<BackupFile> {
  const whole = join(folder, path);
  return { path, bytes: lstatSync(whole).size, sha256: await sha256Of(whole) };
}

/** Throws StartupError unless the manifest has its hash, and every file is there with its own. */
export async function verifiedManifest(folder: string): Promise<BackupManifest> {
  const manifest = readManifest(folder);
  for (const { path, bytes, sha256 } of manifest.files) {
    if (!isOfBackup(path)) throw damaged(folder, path, "it is no file of a backup");
    const stat = lstatSync(join(folder, path), { throwIfNoEntry: false });
    if (stat === undefined) throw damaged(folder, path, "it is missing");
    if (!stat.isFile()) throw damaged(folder, path, "it is no plain file");
    if (stat.size !== bytes) throw damaged(folder, path, `it has ${stat.size} bytes in place of ${bytes}`);
    if ((await sha256Of(join(folder, path))) !== sha256)
      throw damaged(folder, path, "its content has another hash");
  }
  return manifest;
}

/** A manifest may name other files; a restore writes none of them into a home. */
function isOfBackup(path: string): boolean {
  if (path === IDENTITY_FILE || path === join(STORE_FOLDER, DATA_FILE)) return true;
  return normalize(path) === path && dirname(path) === ACCESS_FOLDER;
}

function readManifest(folder: string): BackupManifest {
  const content = readContent(folder);
  const { format, version } = (content ?? {}) as { readonly format?: unknown; readonly version?: unknown };
  if (typeof format === "number" && format > BACKUP_FORMAT)
    throw new StartupError("a newer version of Fleet made the backup", {
      exitCode: ERROR_TABLE.UNSUPPORTED_VERSION.exit,
      details: { folder, format, supported: BACKUP_FORMAT, made_by: version },
      hint: `nothing was restored; use Fleet ${typeof version === "string" ? version : "of that version"} or newer`,
    });
  if (!isManifest(content)) throw damaged(folder, MANIFEST_FILE, "it is no manifest of a backup");
  const { hash, ...sealed } = content;
  if (content.format !== UNSEALED_FORMAT && hashOf(sealed) !== hash)
    throw damaged(folder, MANIFEST_FILE, "its content has another hash");
  return content;
}

function readContent(folder: string): unknown {
  const path = join(folder, MANIFEST_FILE);
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined)
    throw damaged(folder, MANIFEST_FILE, "it is missing");
  const text = readFileSync(path, "utf8");
  try {
    return JSON.parse(text);
  } catch (error) {
    throw damaged(folder, MANIFEST_FILE, (error as Error).message);
  }
}

function isManifest(content: unknown): content is BackupManifest {
  const { format, created_at, fleet, version, files, hash } = (content ?? {}) as Partial<
    Record<keyof BackupManifest, unknown>
  >;
  return (
    (format === UNSEALED_FORMAT || (format === BACKUP_FORMAT && typeof hash === "string")) &&
    typeof created_at === "string" &&
    Number.isFinite(Date.parse(created_at)) &&
    (fleet === null || typeof fleet === "string") &&
    typeof version === "string" &&
    Array.isArray(files) &&
    files.every(isFileEntry) &&
    new Set(files.map(({ path }: BackupFile) => path)).size === files.length &&
    files.some(({ path }: BackupFile) => path === join(STORE_FOLDER, DATA_FILE))
  );
}

function isFileEntry(file: Partial<BackupFile> | null): boolean {
  return typeof file?.path === "string" && typeof file.bytes === "number" && typeof file.sha256 === "string";
}

function damaged(folder: string, file: string, problem: string): StartupError {
  return new StartupError("the folder is no whole backup; nothing was restored", {
    exitCode: ERROR_TABLE.CORRUPT.exit,
    details: { folder, file, problem },
    hint: "name a folder that `fleet backup` made; if this is one, it is damaged: use another backup",
  });
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const part of createReadStream(path)) hash.update(part as Buffer);
  return hash.digest("hex");
}
