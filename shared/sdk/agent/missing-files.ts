/** The files of completed items are verified when a task is resumed: a checkpoint may say more than this machine has (seed 003). */
import { lstat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { FleetError } from "../../protocol/errors.ts";
import type { WorkItem, WorkState } from "./state.ts";

/**
 * What happens if files of completed items are missing. `report`: the run begins, and `run.missing` names them. `stop`: the run fails
 * before the work begins. `repair`: the items are pending again, before all others.
 */
export type OnMissingFiles = "report" | "stop" | "repair";

export interface ItemWithoutFiles {
  readonly item: WorkItem;
  /** As the item names them. */
  readonly files: readonly string[];
}

/** The paths of an item are relative to the folder of the work, or absolute. */
export const filesOfItem = ({ files_created = [], files_modified = [] }: WorkItem): readonly string[] => [
  ...files_created,
  ...files_modified,
];

export async function itemsWithoutFiles(
  items: readonly WorkItem[],
  folder: string,
): Promise<ItemWithoutFiles[]> {
  const found = await Promise.all(
    items.map(async (item) => {
      const isHere = await Promise.all(filesOfItem(item).map((path) => exists(folder, path)));
      return { item, files: filesOfItem(item).filter((_, at) => isHere[at] === false) };
    }),
  );
  return found.filter(({ files }) => files.length > 0);
}

async function exists(folder: string, path: string): Promise<boolean> {
  try {
    await lstat(isAbsolute(path) ? path : join(folder, path));
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A path that cannot be read, for want of a permission, may still be there.
    return code !== "ENOENT" && code !== "ENOTDIR";
  }
}

/** Throws CONFLICT for `stop`. */
export function settleMissing(
  state: WorkState,
  missing: readonly ItemWithoutFiles[],
  rule: OnMissingFiles,
): void {
  if (missing.length === 0 || rule === "report") return;
  if (rule === "stop") {
    throw new FleetError("CONFLICT", "files of completed items are missing", {
      details: { items: missing.map(({ item, files }) => ({ title: item.title, files })) },
    });
  }
  const work = state.execution_state;
  const again = new Set(missing.map(({ item }) => item));
  work.completed_items = work.completed_items.filter((item) => !again.has(item));
  work.pending_items.unshift(
    ...missing.map(({ item: { at: _at, ...item }, files }) => ({
      ...item,
      notes: [item.notes, `done before, but missing: ${files.join(", ")}`].filter(Boolean).join("; "),
    })),
  );
}
