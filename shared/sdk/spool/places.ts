/**
 * The places of spools: for each user one folder per fleet, in the user's own state, so that commands survive the end of the fleet's
 * folder and are found from any folder. Beside the commands stands a note about the fleet that they are for. Commands for one fleet are
 * never sent to another one.
 */
import { mkdirSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { type ExpectedFleet, isFleetId } from "../../bus/server-name.ts";
import { NewerFile, readJson, writeWhole } from "../../runtime/process/whole-file.ts";
import type { Environment } from "../../runtime/settings/config.ts";
import { type BusAddress, hostAndPort } from "../address.ts";
import { findRecord, trustedHome } from "../fleet-home.ts";
import { SpoolFolder } from "./folder.ts";

/** Without a dot: the names of spools have one. */
const NOTE_FILE = "fleet";
const FOLDER_MODE = 0o700;

/** The fleet that the commands of a spool are for. */
export interface SpoolNote {
  /** Its identity; null: no fleet has answered yet, or it announces none. */
  readonly fleet: string | null;
  readonly url: string;
  /** The folder in which it is recorded; null: the caller named its address. */
  readonly home: string | null;
}

export interface SpoolPlace {
  readonly path: string;
  readonly note: SpoolNote;
}

export interface SpoolOwner {
  /** The folder of spools that a setting names. undefined: the user's own. */
  readonly dir: string | undefined;
  readonly address: BusAddress;
  /** The name of the agent's spool. */
  readonly name: string;
  readonly env: Environment;
}

/** The folder of this user's spools of all fleets. */
export function spoolRoot({ XDG_STATE_HOME: state = "", HOME: home }: Environment): string {
  const base = isAbsolute(state) ? state : join(home || homedir(), ".local", "state");
  return join(base, "fleet", "spool");
}

/** undefined: there is none, or it cannot be read. Throws for one of a newer version of Fleet: its commands are for a fleet that is not known here. */
export function readNote(path: string): SpoolNote | undefined {
  try {
    const note = readJson<Partial<SpoolNote>>(join(path, NOTE_FILE));
    if (note === undefined || typeof note.url !== "string") return undefined;
    const { fleet, url, home } = note;
    return { fleet: isFleetId(fleet) ? fleet : null, url, home: typeof home === "string" ? home : null };
  } catch (error) {
    if (error instanceof NewerFile) throw error;
    return undefined;
  }
}

/** Without the note of a newer version, which concerns its own fleet only: for a look at the spools of all fleets. */
export function readableNote(path: string): SpoolNote | undefined {
  try {
    return readNote(path);
  } catch (error) {
    if (error instanceof NewerFile) return undefined;
    throw error;
  }
}

/** Throws the errors of the disk. */
export function writeNote({ path, note }: SpoolPlace): void {
  const known = readNote(path);
  if (known !== undefined && JSON.stringify(known) === JSON.stringify(note)) return;
  mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
  writeWhole(join(path, NOTE_FILE), JSON.stringify(note));
}

/**
 * The place of an agent's spool. `met`: the identity of the fleet that has answered. undefined: commands are not spooled, because the
 * address is only assumed and no fleet has answered there: the next one could be any.
 */
export async function spoolPlace(owner: SpoolOwner, met?: string): Promise<SpoolPlace | undefined> {
  const { dir, address, name, env } = owner;
  const { url, expected, isAssumed } = address;
  const fleet = met ?? expected?.fleet;
  const nearest = trustedHome(env);
  const isNearest = nearest !== undefined && fleet !== undefined && findRecord(nearest)?.fleet === fleet;
  const home = expected?.home ?? (isNearest ? nearest : undefined);
  const note = { fleet: fleet ?? null, url, home: home === undefined ? null : resolve(home) };
  const at = (folder: string): SpoolPlace => {
    const path = join(folder, name);
    // Without an answer, later commands are for the same fleet as the earlier ones.
    return { path, note: fleet === undefined ? (readNote(path) ?? note) : note };
  };
  if (dir !== undefined) return at(dir);
  const root = spoolRoot(env);
  const byAddress = join(root, addressFolder(url));
  // Commands that were spooled before the fleet had answered, or by a version that kept them in the home, are sent first.
  const earlier = [
    ...(home === undefined ? [] : [join(home, "spool")]),
    ...(expected === undefined ? [byAddress] : []),
  ];
  for (const folder of isAssumed ? [] : earlier) {
    if (!(await isEmpty(join(folder, name)))) return at(folder);
  }
  if (fleet !== undefined) return at(join(root, fleet));
  return isAssumed === true ? undefined : at(folderOfAddress(root, name, url) ?? byAddress);
}

/** The folder of the spools for a fleet: by its identity, else by its address. */
export function spoolFolderOf(env: Environment, fleet: string | undefined, url: string): string {
  return join(spoolRoot(env), fleet ?? addressFolder(url));
}

/** The fleet for which commands of the agent wait, if it is known: no other one may get them. */
export async function waitingFor(owner: SpoolOwner): Promise<ExpectedFleet | undefined> {
  const place = await spoolPlace(owner);
  if (place === undefined || (await isEmpty(place.path))) return undefined;
  const fleet = readNote(place.path)?.fleet ?? null;
  return fleet === null ? undefined : { fleet, home: place.path };
}

/** The folder of the fleet that last answered at an address, as far as the agent's spools name it. */
function folderOfAddress(root: string, name: string, url: string): string | undefined {
  return namesIn(root)
    .map((folder) => join(root, folder))
    .find((folder) => {
      const note = readableNote(join(folder, name));
      return note !== undefined && isSamePlace(note.url, url);
    });
}

/** A folder that cannot be read is reported by the first command that must be spooled. */
const isEmpty = (path: string): Promise<boolean> => new SpoolFolder(path, 0).isEmpty().catch(() => true);

const isSamePlace = (one: string, other: string): boolean =>
  URL.canParse(one) && URL.canParse(other) && hostAndPort(one) === hostAndPort(other);

/** A folder's name for an address whose fleet is not known. */
function addressFolder(url: string): string {
  const place = URL.canParse(url) ? hostAndPort(url) : url;
  return `at-${place.replace(/[^A-Za-z0-9]+/g, "-")}`;
}

export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw error;
  }
}
