/** The spools of a machine, for people and tools: whose they are and what waits in them. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { SpoolFolder } from "./folder.ts";
import type { Aside } from "./line.ts";
import { type Pending, pendingOf } from "./spool.ts";

export interface ListedSpool extends Pending {
  readonly tenant: string;
  readonly agentId: string;
  readonly path: string;
  /** Why lines were set aside. */
  readonly reasons: readonly Aside["reason"][];
}

/** The name of an agent's spool in the folder of all spools; ids have no dots. */
export const spoolName = (tenant: string, agentId: string): string => `${tenant}.${agentId}`;

/** Those in which something waits or was set aside; none when there is no folder. */
export async function listSpools(folder: string): Promise<ListedSpool[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  const all = await Promise.all(names.sort().map((name) => listed(join(folder, name), name)));
  return all.filter((one) => one !== undefined);
}

async function listed(path: string, name: string): Promise<ListedSpool | undefined> {
  const [tenant = "", agentId = "", ...more] = name.split(".");
  if (agentId === "" || more.length > 0) return undefined;
  const folder = new SpoolFolder(path, 0);
  const pending = await pendingOf(folder);
  if (pending.commands === 0 && pending.aside === 0) return undefined;
  const reasons = [...new Set((await folder.aside()).map(({ reason }) => reason))];
  return { tenant, agentId, path, ...pending, reasons };
}
