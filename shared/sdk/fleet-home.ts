/**
 * The home of a fleet: the folder in which a standalone fleet keeps its data and records its address and its identity. A program belongs
 * to the fleet of `FLEET_HOME`, else to that of the nearest folder `.fleet` with a record, in its working folder or above it, whether
 * that fleet runs or not.
 */
import { lstatSync, readFileSync, type Stats, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { isFleetId } from "../bus/server-name.ts";
import { NewerFile, requireFormat } from "../runtime/process/whole-file.ts";
import {
  ConfigError,
  type Environment,
  type Field,
  optional,
  readConfig,
  text,
} from "../runtime/settings/config.ts";

export const HOME_DEFAULT = ".fleet";
/**
 * The part of a home for programs outside of the fleet's container. Copied to a folder `.fleet` that exists, it stays a folder in it, and
 * counts if no fleet was ever started there.
 */
export const CLIENT_FOLDER = "client";
export const RECORD_FILE = "addresses.json";
const OTHERS_WRITE = 0o022;
const OTHERS_ENTER = 0o011;
const ROOT = 0;

export const homeField: Field<string | undefined> = optional(
  text("FLEET_HOME", {
    description: "Folder of the standalone fleet's data",
    defaultNote: "the nearest `.fleet` with a recorded fleet, here or in a parent folder",
  }),
);

/** What a fleet has recorded about itself. */
export interface FleetRecord {
  readonly home: string;
  /** The address of the bus, or those of several servers with commas. */
  readonly url: string;
  /** The address of the HTTP API. undefined: the fleet has none, or recorded none. */
  readonly gatewayUrl: string | undefined;
  /** The file, for messages. */
  readonly path: string;
  /** The certificates that may sign the bus's own. */
  readonly caFile: string | undefined;
  /** The identity. undefined: recorded by a version without identities. */
  readonly fleet: string | undefined;
  /** True while a process with the recorded id exists. */
  readonly isRunning: boolean;
}

/** Throws ConfigError if the nearest record could have been written by another user. */
export function homeOf(env: Environment): string {
  const { home } = readConfig({ home: homeField }, env);
  if (home !== undefined) return home;
  const found = nearestHome(process.cwd());
  return found === undefined || found === resolve(HOME_DEFAULT) ? HOME_DEFAULT : found;
}

/** The home where it is of use but not needed; undefined if there is none to trust. */
export function trustedHome(env: Environment): string | undefined {
  try {
    return homeOf(env);
  } catch {
    return undefined;
  }
}

/** The nearest home with a record, from a folder up to the root of the file system. Absolute. Throws as {@link homeOf} does. */
export function nearestHome(folder: string): string | undefined {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const usual = join(at, HOME_DEFAULT);
    const home = [usual, join(usual, CLIENT_FOLDER)].find(hasRecord);
    if (home !== undefined) {
      requireOwn(home);
      if (home !== usual) requireOwnFolder(usual);
      return home;
    }
    if (dirname(at) === at) return undefined;
  }
}

/** undefined: no fleet has run in this folder. Throws ConfigError for a record that cannot be read, or is a copy. */
export function readRecord(home: string): FleetRecord | undefined {
  const path = join(home, RECORD_FILE);
  let content: Record<string, unknown>;
  try {
    content = contentOf(path);
  } catch (error) {
    if (error instanceof NewerFile) throw error;
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw unusable(path, code ?? "no JSON");
  }
  const { busUrl, gatewayUrl, busCa, fleet, pid } = content;
  if (typeof busUrl !== "string" || !addressesOf(busUrl).every((url) => URL.canParse(url)))
    throw unusable(path, "no address");
  const original = originalOf(home, content);
  if (original !== undefined) throw unusable(path, `a copy from ${original}`);
  return {
    home,
    url: busUrl,
    gatewayUrl: typeof gatewayUrl === "string" ? gatewayUrl : undefined,
    path,
    // In a copy for clients, the path is relative to the record.
    caFile: typeof busCa === "string" ? resolve(home, busCa) : undefined,
    fleet: isFleetId(fleet) ? fleet : undefined,
    isRunning: isAlive(pid),
  };
}

/** The addresses in a setting or a record, which may name several servers of one cluster. */
export const addressesOf = (urls: string): string[] => urls.split(",").map((url) => url.trim());

/** The record where it is of use but not needed; undefined if there is none that can be read. */
export function findRecord(home: string | undefined): FleetRecord | undefined {
  try {
    return home === undefined ? undefined : readRecord(home);
  } catch {
    return undefined;
  }
}

/** The home from which a folder was copied, if that one still has the same fleet: the copy needs an identity of its own. */
export function copiedFrom(home: string): string | undefined {
  try {
    return originalOf(home, contentOf(join(home, RECORD_FILE)));
  } catch {
    return undefined;
  }
}

function contentOf(path: string): Record<string, unknown> {
  const content = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown> | null;
  return requireFormat(content, path) ?? {};
}

/** A home that was moved, or has another path in a container, has no original beside it. */
function originalOf(
  home: string,
  { home: recorded, fleet }: Readonly<Record<string, unknown>>,
): string | undefined {
  if (typeof recorded !== "string" || !isFleetId(fleet) || recorded === resolve(home)) return undefined;
  const [own, other] = [statsOf(home), statsOf(recorded)];
  if (other === undefined || (own?.ino === other.ino && own.dev === other.dev)) return undefined;
  try {
    return contentOf(join(recorded, RECORD_FILE)).fleet === fleet ? recorded : undefined;
  } catch {
    return undefined;
  }
}

function hasRecord(home: string): boolean {
  try {
    lstatSync(join(home, RECORD_FILE));
    return true;
  } catch (error) {
    // A folder that may not be entered is another user's, which the next check reports.
    return (error as NodeJS.ErrnoException).code === "EACCES";
  }
}

/** A record that another user may write could send commands, with their content, to a fleet of that user. */
function requireOwn(home: string): void {
  const path = join(home, RECORD_FILE);
  const folder = statsOf(home);
  const isClosed = folder !== undefined && (folder.mode & OTHERS_ENTER) === 0;
  requireOwnFolder(home);
  if (!isOwn(path, isClosed ? 0 : OTHERS_WRITE)) throw foreign(home);
}

function requireOwnFolder(home: string): void {
  if (!isOwn(home, OTHERS_WRITE)) throw foreign(home);
}

function foreign(home: string): ConfigError {
  const { uid, mode } = statsOf(home) ?? {};
  const owner = uid === undefined ? "" : `, of user ${uid} with mode ${((mode ?? 0) & 0o777).toString(8)}`;
  return new ConfigError([
    {
      name: homeField.name,
      expected: "a path, because the nearest fleet is in a folder that another user may write (chmod go-w)",
      got: `nothing; the folder is ${home}${owner}`,
    },
  ]);
}

/** A symbolic link counts with its own owner and with its target. */
function isOwn(path: string, forbidden: number): boolean {
  const uid = process.geteuid?.();
  if (uid === undefined) return true;
  const [link, target] = [statsOf(path, lstatSync), statsOf(path)];
  const isOwner = (stats: Stats | undefined) => stats?.uid === uid || stats?.uid === ROOT;
  return isOwner(link) && isOwner(target) && ((target?.mode ?? forbidden) & forbidden) === 0;
}

function statsOf(path: string, read: (path: string) => Stats = statSync): Stats | undefined {
  try {
    return read(path);
  } catch {
    return undefined;
  }
}

function unusable(path: string, got: string): ConfigError {
  const expected = "the folder of a fleet whose record can be read; `fleet up` writes it again";
  return new ConfigError([{ name: homeField.name, expected, got: `${path}: ${got}` }]);
}

function isAlive(pid: unknown): boolean {
  // 0 and negative numbers would address process groups.
  if (typeof pid !== "number" || !Number.isSafeInteger(pid) || pid < 1) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
