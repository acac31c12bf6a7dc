/** Lists the spools of this user, for operators and tools: the agent of each, its fleet, and the commands that wait in it. */
import { join } from "node:path";
import type { Environment } from "../../runtime/settings/config.ts";
import { trustedHome } from "../fleet-home.ts";
import { SpoolFolder } from "./folder.ts";
import type { Aside } from "./line.ts";
import { namesIn, readableNote, type SpoolNote, spoolRoot } from "./places.ts";
import { type PendingCommands, pendingIn } from "./spool.ts";

export interface ListedSpool extends PendingCommands {
  readonly tenant: string;
  readonly agentId: string;
  readonly path: string;
  /** The folder of the spools of one fleet, in which it is. */
  readonly folder: string;
  /** The fleet of the commands; undefined: not recorded. */
  readonly note: SpoolNote | undefined;
  /** Why lines were set aside. */
  readonly reasons: readonly Aside["reason"][];
}

/** The name of an agent's spool in the folder of all spools. Ids have no dots. */
export const spoolName = (tenant: string, agentId: string): string => `${tenant}.${agentId}`;

/**
 * The folders in which spools of this user may be: the one that a setting names, else those of all fleets, and the one in the home in
 * which earlier versions kept them.
 */
export function spoolFolders(dir: string | undefined, env: Environment): readonly string[] {
  if (dir !== undefined) return [dir];
  const root = spoolRoot(env);
  const home = trustedHome(env);
  const earlier = home === undefined ? [] : [join(home, "spool")];
  return [...namesIn(root).map((name) => join(root, name)), ...earlier];
}

/** The spools with commands or lines that were set aside; none if the folder does not exist. */
export async function listSpools(folder: string): Promise<ListedSpool[]> {
  const all = await Promise.all(namesIn(folder).map((name) => readSpool(folder, name)));
  return all.filter((spool) => spool !== undefined);
}

async function readSpool(folder: string, name: string): Promise<ListedSpool | undefined> {
  const path = join(folder, name);
  const [tenant = "", agentId = "", ...rest] = name.split(".");
  if (agentId === "" || rest.length > 0) return undefined;
  const files = new SpoolFolder(path, 0);
  const pending = await pendingIn(files);
  if (pending.commands === 0 && pending.aside === 0) return undefined;
  const reasons = [...new Set((await files.aside()).map(({ reason }) => reason))];
  return { tenant, agentId, path, folder, note: readableNote(path), ...pending, reasons };
}
