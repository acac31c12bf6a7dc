/** The lock for a Node without SQLite: files in a folder, which count while their process lives. See folder-claims.ts. */
import { mkdirSync } from "node:fs";
import { claimFolder, type Sharing } from "../../runtime/process/folder-claims.ts";
import { heldTooLong, notLockable, type SharedLock } from "./shared-lock.ts";

const FOLDER_MODE = 0o700;

export class ClaimLock implements SharedLock {
  readonly #folder: string;
  readonly #waitMs: number;

  constructor(folder: string, waitMs: number) {
    this.#folder = folder;
    this.#waitMs = waitMs;
    mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
  }

  pass(): void {
    this.#hold("shared", () => {});
  }

  share<T>(work: () => T): T {
    return this.#hold("shared", work);
  }

  takeAlone<T>(work: () => T): T {
    return this.#hold("exclusive", work);
  }

  close(): void {}

  #hold<T>(sharing: Sharing, work: () => T): T {
    const claim = this.#claim(sharing);
    try {
      return work();
    } finally {
      claim.release();
    }
  }

  #claim(sharing: Sharing) {
    let claim: ReturnType<typeof claimFolder>;
    try {
      claim = claimFolder(this.#folder, { sharing, waitMs: this.#waitMs });
    } catch (cause) {
      throw notLockable(cause);
    }
    if (claim !== undefined) return claim;
    throw heldTooLong();
  }
}
