/** Reports of the operating system that a file was written, by any process of this machine. */
import { watch } from "node:fs";

/** Returns a function that ends the reports; undefined: the system has none for this file, or no room for another watcher. */
export function reportWrites(path: string, written: () => void): (() => void) | undefined {
  try {
    const watcher = watch(path, { persistent: false }, () => written());
    // Without it the slow look of the caller remains.
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    return undefined;
  }
}
