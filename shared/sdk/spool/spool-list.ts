/** Lists the spools on a machine, for operators and tools: the agent of each, and the commands that wait in it. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { SpoolFolder } from "./folder.ts";
import type { Aside } from "./line.ts";
import { type PendingCommands, pendingIn } from "./spool.ts";

export interface ListedSpool extends PendingCommands {
  readonly tenant: string;
  readonly agentId: string;
  readonly path: string;
  /** Why lines were set aside. */
  readonly reasons: readonly Aside["reason"][];
}

/** The name of an agent's spool in the folder of all spools. Ids have no dots. */
export const spoolName = (tenant: string, agentId: string): string => `${tenant}.${agentId}`;

/** The spools with commands or lines that were set aside; none if the folder does not exist. */
export async function listSpools(folder: string): Promise<ListedSpool[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  const all = await Promise.all(names.sort().map((name) => readSpool(join(folder, name), name)));
  return all.filter((spool) => spool !== undefined);
}

async function readSpool(path: string, name: string): Promise<ListedSpool | undefined> {
  const [tenant = "", agentId = "", ...rest] = name.split(".");
  if (agentId === "" || rest.length > 0) return undefined;
  const folder = new SpoolFolder(path, 0);
  const pending = await pendingIn(folder);
  if (pending.commands === 0 && pending.aside === 0) return undefined;
  const reasons = [...new Set((await folder.aside()).map(({ reason }) => reason))];
  return { tenant, agentId, path, ...pending, reasons };
}
