/**
 * A restore prepares the data in a folder within that of the store, and moves the file to its place last. Until then the store has no data, and a
 * program that opened it would begin an empty one.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { exitCodes, StartupError } from "../../runtime/process/startup.ts";
import { DATA_FILE } from "./environment.ts";

const PREPARED_FOLDER = "restored";

export const preparedFolder = (store: string): string => join(store, PREPARED_FOLDER);

/** Throws StartupError if a restore into the folder of a store is in progress, or was interrupted. undefined: no store in a folder. */
export function requireRestored(store: string | undefined): void {
  if (store === undefined || !existsSync(preparedFolder(store)) || existsSync(join(store, DATA_FILE))) return;
  throw new StartupError("a restore of the store has not ended, so it has no data yet", {
    exitCode: exitCodes.unavailable,
    details: { store },
    hint: `repeat \`fleet restore FOLDER\`, or remove ${preparedFolder(store)} to begin with an empty store`,
  });
}
