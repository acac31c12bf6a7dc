/**
 * One fleet per store. The threads of a fleet share its store, and other services may join them. A second
 * fleet would publish half of the events to its own bus, so a fleet holds a lock of its own beside that of
 * the store.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type FolderLock, lockFolder, lockHolder } from "../../shared/runtime/process/folder-lock.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import { requireUsableFolder } from "./folder-check.ts";

/** null where the store is not an LMDB directory. Throws StartupError when another fleet uses it. */
export function lockStore(storeUrl: string): FolderLock | null {
  const path = /^lmdb:([^?]+)$/.exec(storeUrl)?.[1];
  if (path === undefined) return null;
  const folder = join(path, "fleet");
  let lock: FolderLock | undefined;
  try {
    requireUsableFolder(path);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    lock = lockFolder(folder);
  } catch (cause) {
    if (cause instanceof StartupError) throw cause;
    throw failed("the store cannot be locked", { store: storeUrl, problem: (cause as Error).message }, cause);
  }
  if (lock === undefined)
    throw failed("another fleet uses the store", { store: storeUrl, pid: lockHolder(folder) });
  return lock;
}

function failed(message: string, details: Readonly<Record<string, unknown>>, cause?: unknown): StartupError {
  return new StartupError(message, {
    exitCode: exitCodes.unavailable,
    details,
    hint: "stop the fleet that uses it, or set FLEET_HOME or FLEET_STORE",
    cause,
  });
}
