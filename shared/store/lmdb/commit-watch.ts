/**
 * Notices commits of other threads and processes by the engine's count of commits. Every look wakes the thread,
 * so the looks are frequent only while others commit. The delay affects waits for a change only.
 */
import type { Clock } from "../../runtime/clock.ts";

const LOOK_EVERY_MS = { busy: 20, idle: 200 };
const BUSY_FOR_MS = 2_000;

export interface CommitWatchParts {
  /** The count of commits by all threads and processes. */
  readonly commits: () => number;
  readonly clock: Pick<Clock, "monotonic">;
}

export class CommitWatch {
  readonly #parts: CommitWatchParts;
  /** The commits that are known to be of this thread. */
  #own = 0;
  #isCommitting = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: CommitWatchParts) {
    this.#parts = parts;
  }

  /** Makes a commit of this thread; one at a time. */
  async own<T>(commit: () => Promise<T>): Promise<T> {
    const before = this.#parts.commits();
    this.#isCommitting = true;
    try {
      return await commit();
    } finally {
      this.#isCommitting = false;
      if (this.#parts.commits() > before) this.#own += 1;
    }
  }

  /** Calls `noticed` after each commit. */
  start(noticed: () => void): void {
    const { commits, clock } = this.#parts;
    let seen = commits();
    let isNew = false;
    /** The commits of others. */
    let others = seen - this.#own;
    let othersAt = clock.monotonic();
    const look = (): void => {
      const now = clock.monotonic();
      const count = commits();
      // Notices again at the next look: a commit is counted a moment before snapshots show it.
      const wasNew = isNew;
      isNew = count !== seen;
      if (isNew || wasNew) noticed();
      seen = count;
      // The commit in progress may be counted already.
      const unknown = count - this.#own - others;
      if (unknown > (this.#isCommitting ? 1 : 0)) othersAt = now;
      if (unknown < 0 || !this.#isCommitting) others += unknown;
      const pace = now - othersAt < BUSY_FOR_MS ? "busy" : "idle";
      this.#timer = setTimeout(look, LOOK_EVERY_MS[pace]).unref();
    };
    look();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
