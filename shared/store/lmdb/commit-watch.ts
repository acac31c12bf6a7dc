/**
 * Notices commits of other threads and processes by the engine's count of commits. Every look wakes the thread, so the looks are frequent
 * only while others commit. A thread on which nothing happens does not look at all: the operating system reports that the file of the
 * store was written, and a slow look is for a report that did not come. The delay affects waits for a change only.
 */
import type { Clock } from "../../runtime/clock.ts";

const LOOK_EVERY_MS = { busy: 20, idle: 200, quiet: 2_000 };
const BUSY_FOR_MS = 2_000;
/** The commits of this thread in a second from which reports of them cost more than looks. */
const REPORTS_MAX = 10;
const REPORTS_WITHIN_MS = 1_000;

export interface CommitWatchParts {
  /** The count of commits by all threads and processes. */
  readonly commits: () => number;
  readonly clock: Pick<Clock, "monotonic">;
  /** Calls `written` after each write of the store's file by any process. Returns a function that ends this; undefined: there are no reports. */
  readonly onWrite: (written: () => void) => (() => void) | undefined;
}

type Pace = keyof typeof LOOK_EVERY_MS;

export class CommitWatch {
  readonly #parts: CommitWatchParts;
  #noticed: () => void = () => {};
  /** The commits that are known to be of this thread. */
  #own = 0;
  #isCommitting = false;
  #timer: NodeJS.Timeout | undefined;
  #stopReports: (() => void) | undefined;
  /** The reports since `#reportsFrom`. */
  #reports = 0;
  #reportsFrom = 0;
  #seen = 0;
  #isNew = false;
  /** The commits of others. */
  #others = 0;
  #othersAt = 0;
  /** When there were last too many reports. */
  #flooded = Number.NEGATIVE_INFINITY;

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
    this.#noticed = noticed;
    this.#seen = commits();
    this.#others = this.#seen - this.#own;
    this.#othersAt = clock.monotonic();
    this.#look();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#stopReports?.();
    this.#stopReports = undefined;
  }

  #look(): void {
    const now = this.#parts.clock.monotonic();
    this.#count(now);
    const pace = this.#pace(now);
    if (pace !== "quiet") {
      this.#stopReports?.();
      this.#stopReports = undefined;
    } else if (this.#stopReports === undefined) {
      this.#listen(now);
      // A commit between the look and the beginning of the reports.
      if (this.#stopReports !== undefined && this.#parts.commits() !== this.#seen) {
        this.#look();
        return;
      }
    }
    const next = pace === "quiet" && this.#stopReports === undefined ? "idle" : pace;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), LOOK_EVERY_MS[next]).unref();
  }

  #count(now: number): void {
    const count = this.#parts.commits();
    // Notices again at the next look: a commit is counted a moment before snapshots show it.
    const wasNew = this.#isNew;
    this.#isNew = count !== this.#seen;
    if (this.#isNew || wasNew) this.#noticed();
    this.#seen = count;
    // The commit in progress may be counted already.
    const unknown = count - this.#own - this.#others;
    if (unknown > (this.#isCommitting ? 1 : 0)) this.#othersAt = now;
    if (unknown < 0 || !this.#isCommitting) this.#others += unknown;
  }

  #pace(now: number): Pace {
    if (now - this.#othersAt < BUSY_FOR_MS) return "busy";
    return now - this.#flooded < BUSY_FOR_MS ? "idle" : "quiet";
  }

  #listen(now: number): void {
    this.#reports = 0;
    this.#reportsFrom = now;
    this.#stopReports = this.#parts.onWrite(() => this.#reported());
  }

  #reported(): void {
    if (this.#stopReports === undefined) return;
    const now = this.#parts.clock.monotonic();
    if (now - this.#reportsFrom > REPORTS_WITHIN_MS) {
      this.#reports = 0;
      this.#reportsFrom = now;
    }
    this.#reports += 1;
    if (this.#reports > REPORTS_MAX) this.#flooded = now;
    this.#look();
  }
}
