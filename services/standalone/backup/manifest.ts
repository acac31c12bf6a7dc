/** The manifest of a backup: what it holds, with the hash of each file. It is written last, so a folder without it is no backup. */
import { createHash } from "node:crypto";
import { createReadStream, lstatSync, readFileSync } from "node:fs";
import { join, normalize } from "node:path";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import { DATA_FILE } from "../../../shared/store/lmdb/environment-copy.ts";

export const MANIFEST_FILE = "manifest.json";
export const BACKUP_FORMAT = 1;
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
  readonly files: readonly BackupFile[];
}

export async function describedFile(folder: string, path: string): Promise<BackupFile> {
  const whole = join(folder, path);
  return { path, bytes: lstatSync(whole).size, sha256: await sha256Of(whole) };
}

/** Throws StartupError unless every file is there with its hash. */
export async function verifiedManifest(folder: string): Promise<BackupManifest> {
  const manifest = readManifest(folder);
  for (const { path, bytes, sha256 } of manifest.files) {
    if (normalize(path) !== path || path.startsWith("..") || path.startsWith("/"))
      throw damaged(folder, path, "it names a file outside of the backup");
    const stat = lstatSync(join(folder, path), { throwIfNoEntry: false });
    if (stat === undefined) throw damaged(folder, path, "it is missing");
    if (!stat.isFile()) throw damaged(folder, path, "it is no plain file");
    if (stat.size !== bytes || (await sha256Of(join(folder, path))) !== sha256)
      throw damaged(folder, path, "its content has another hash");
  }
  return manifest;
}

function readManifest(folder: string): BackupManifest {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(join(folder, MANIFEST_FILE), "utf8"));
  } catch (error) {
    const problem = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
    throw damaged(folder, MANIFEST_FILE, problem === "ENOENT" ? "it is missing" : problem);
  }
  const format = (content as { format?: unknown } | null)?.format;
  if (typeof format === "number" && format > BACKUP_FORMAT)
    throw new StartupError("a newer version of Fleet made the backup", {
      exitCode: exitCodes.config,
      details: { folder, format, supported: BACKUP_FORMAT },
    });
  if (!isManifest(content)) throw damaged(folder, MANIFEST_FILE, "it is no manifest of a backup");
  return content;
}

function isManifest(content: unknown): content is BackupManifest {
  const { format, created_at, fleet, files } = (content ?? {}) as Partial<
    Record<keyof BackupManifest, unknown>
  >;
  return (
    typeof format === "number" &&
    typeof created_at === "string" &&
    Number.isFinite(Date.parse(created_at)) &&
    (fleet === null || typeof fleet === "string") &&
    Array.isArray(files) &&
    files.every(
      (file: Partial<BackupFile> | null) =>
        typeof file?.path === "string" && typeof file.bytes === "number" && typeof file.sha256 === "string",
    ) &&
    files.some(({ path }: BackupFile) => path === join(STORE_FOLDER, DATA_FILE))
  );
}

function damaged(folder: string, file: string, problem: string): StartupError {
  return new StartupError("the folder is no whole backup; nothing was restored", {
    exitCode: exitCodes.config,
    details: { folder, file, problem },
  });
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const part of createReadStream(path)) hash.update(part as Buffer);
  return hash.digest("hex");
}
