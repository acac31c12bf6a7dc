/**
 * Brings the written files of the mirror to the disk, all of them together and rarely. Node has no call for it, so the command `sync` of the system
 * does it. Without that command no place counts as synced, and after a new start of the machine every file is written again.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { FeedPlace } from "./position.ts";

/** Limits how much a power cut can undo. */
const EVERY_MS = 60_000;
const SYNC_MS_MAX = 300_000;

const run = promisify(execFile);

export class DiskSync {
  readonly #sync: () => Promise<unknown>;
  readonly #now: () => number;
  readonly #onFailure: (error: unknown) => void;
  #last: number;
  #running: object | null = null;
  #synced: FeedPlace | null = null;

  /** `now` is monotonic, in milliseconds. `onFailure` is called for each failure. */
  constructor(sync: () => Promise<unknown>, now: () => number, onFailure: (error: unknown) => void) {
    this.#sync = sync;
    this.#now = now;
    this.#onFailure = onFailure;
    this.#last = now();
  }

  /** The place of the newest files that are on the disk; null: not known yet. */
  get synced(): FeedPlace | null {
    return this.#synced;
  }

  /** All files up to this place are written. Begins a sync if the last one is long ago; never waits for it. */
  written(place: FeedPlace): void {
    if (this.#running !== null || this.#now() - this.#last < EVERY_MS) return;
    if (this.#synced?.after === place.after) return;
    const running = {};
    this.#running = running;
    void this.#sync()
      .then(
        () => {
          if (this.#running === running) this.#synced = place;
        },
        (error: unknown) => this.#onFailure(error),
      )
      .finally(() => {
        if (this.#running === running) this.#running = null;
        this.#last = this.#now();
      });
  }

  /** Another folder or another store is mirrored from now on. */
  forget(): void {
    this.#running = null;
    this.#synced = null;
  }
}

/** Syncs the file system of a folder (syncfs(2)). */
export async function syncFileSystem(folder: string): Promise<void> {
  await run("sync", ["-f", folder], { timeout: SYNC_MS_MAX });
}
