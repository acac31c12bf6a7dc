/**
 * One fleet per store. The threads share the store, and services that were told to may join them; but a second fleet would publish
 * half of the events to its own bus, so the store carries a lock of the fleet's beside that of the store itself.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { StartupError } from "../../shared/runtime/process/startup.ts";
import { type DirectoryLock, lockDirectory } from "../../shared/store/lmdb/lock.ts";
import { StoreError } from "../../shared/store/store.ts";

/** null where the store is not an LMDB directory. Throws StartupError when another fleet has it. */
export async function lockStore(storeUrl: string): Promise<DirectoryLock | null> {
  const path = /^lmdb:([^?]+)$/.exec(storeUrl)?.[1];
  if (path === undefined) return null;
  const folder = join(path, "fleet");
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return await lockDirectory(folder);
  } catch (error) {
    const details = error instanceof StoreError ? error.details : { problem: (error as Error).message };
    throw new StartupError("the store cannot be locked; another fleet may use it", {
      exitCode: 69,
      details: { ...details, store: storeUrl },
      hint: "stop the fleet that uses it, or set FLEET_HOME or FLEET_STORE",
      cause: error,
    });
  }
}
