/**
 * Which folders of tasks may have plain files from before the seal. A folder is listed once. After that only sealed files are added to it, as long as no
 * other mirror writes there.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { TRAIL_ASIDE } from "../audit-file.ts";
import { AUDIT_FILE, idOfFile, SEALED_SUFFIX } from "../place.ts";

/** More than these are listed again. */
const FOLDERS_MAX = 20_000;

export class PlainFolders {
  readonly #sealed = new Set<string>();

  mayBeIn(folder: string): boolean {
    // A mirror without a seal that was killed since has begun with the trail.
    if (this.#sealed.has(folder)) return existsSync(join(folder, AUDIT_FILE));
    if (readdirSync(folder).some(isPlainFile)) return true;
    if (this.#sealed.size >= FOLDERS_MAX) this.#sealed.clear();
    this.#sealed.add(folder);
    return false;
  }

  forget(): void {
    this.#sealed.clear();
  }
}

function isPlainFile(name: string): boolean {
  if (name.endsWith(SEALED_SUFFIX)) return false;
  return name === AUDIT_FILE || TRAIL_ASIDE.test(name) || idOfFile(name) !== null;
}
