/**
 * The entries of one tenant that this process has not written yet, and its session in the log. One batch is written at a time; what arrives meanwhile
 * is the next one. A session is opened durably before the first answer, so a killed process leaves an open session in the log, and not an unseen gap.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type { AccessEntry } from "../../protocol/access-log.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { AccessBatch } from "../../records/access-log/append.ts";
import { backoffMs } from "../../runtime/retry.ts";
import { STORE_LIMITS } from "../../store/store.ts";

const BACKOFF = { baseMs: 100, maxMs: 1_000 } as const;
const SESSION_BYTES = 8;
/** Of an entry with its row in the index, and of each task that a list has shown: more than they take. */
const ENTRY_BYTES = 1_000;
const TASK_BYTES = 250;
const BATCH_BYTES_MAX = STORE_LIMITS.transaction_bytes_max * 0.7;

/** The entries that the process holds, of all its tenants. */
export interface HeldCount {
  entries: number;
}

export interface TenantLogParts {
  /** Durable when it resolves; repeated with the same batch until then. */
  readonly write: (batch: AccessBatch) => Promise<unknown>;
  readonly onWritten: (entries: number) => void;
  readonly onFailed: (error: unknown) => void;
  readonly onLost: () => void;
  readonly held: HeldCount;
}

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface HeldEntry {
  readonly entry: AccessEntry;
  /** undefined: its answer did not wait. */
  readonly waiting: Waiting | undefined;
}

/** The process has no room for the entry: the store was away for too long. */
export class AccessLogFull extends Error {
  constructor() {
    super("the access log cannot be written");
    this.name = "AccessLogFull";
  }
}

export class TenantLog {
  readonly #parts: TenantLogParts;
  readonly #session = randomBytes(SESSION_BYTES).toString("hex");
  readonly #stopping = new AbortController();
  #n = 0;
  #held: HeldEntry[] = [];
  /** Those of {@link #held}, and of the batch that is written. */
  #count = 0;
  #lost = 0;
  /** Whether a batch was given up, which the log may lack. */
  #hasDropped = false;
  /** Whether the log shows that this process may hold entries. */
  #isOpen = false;
  /** Whether the last attempt to write has failed. */
  #isFailing = false;
  #writing: Promise<void> | null = null;
  #flushTimer: NodeJS.Timeout | undefined;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(parts: TenantLogParts) {
    this.#parts = parts;
  }

  /**
   * undefined: the answer need not wait. Otherwise it waits until the entry is durable; the promise rejects if that fails, and the entry may be
   * written nevertheless. Throws {@link AccessLogFull}.
   */
  add(entry: AccessEntry, mustWait: boolean): Promise<void> | undefined {
    const { held, onLost } = this.#parts;
    // A tenant whose log cannot be written must not take the room of the others.
    const isFull = this.#count >= LIMITS.access_log_held_count_max;
    if (isFull || held.entries >= LIMITS.access_log_held_total_max) {
      this.#lost += 1;
      onLost();
      if (mustWait) throw new AccessLogFull();
      return undefined;
    }
    held.entries += 1;
    this.#count += 1;
    if (!mustWait && (this.#isOpen || this.#isFailing)) {
      this.#held.push({ entry, waiting: undefined });
      if (this.#held.length >= LIMITS.access_log_block_count_max) this.#begin();
      else this.#flushTimer ??= setTimeout(() => this.#begin(), LIMITS.access_log_wait_ms);
      return undefined;
    }
    const written = new Promise<void>((resolve, reject) =>
      this.#held.push({ entry, waiting: { resolve, reject } }),
    );
    this.#begin();
    return written;
  }

  /** Writes what is held and closes the session, as far as the store accepts it. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#clearTimers();
    await this.#writing;
    try {
      while (this.#held.length > this.#batchCount()) await this.#write("open");
      // An open session shows that entries may be lost.
      if (this.#hasDropped) await this.#write("open");
      else if (this.#isOpen || this.#held.length > 0) await this.#write("closed");
    } catch {
      // Reported by the attempt. The session stays open in the log, which shows that entries may be lost.
    }
  }

  #begin(): void {
    this.#clearTimers();
    this.#run(() => this.#writeHeld());
  }

  #endIdle(): void {
    this.#run(() => this.#write("closed"));
  }

  /** One batch at a time. What arrives while it is written is written after it. */
  #run(work: () => Promise<void>): void {
    this.#writing ??= work()
      // Only at the stop, and reported by the attempt.
      .catch(() => {})
      .then(() => {
        this.#writing = null;
        if (this.#held.length > 0 && !this.#stopping.signal.aborted) this.#begin();
      });
  }

  async #writeHeld(): Promise<void> {
    // After the input of this turn, with which other entries arrive.
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#held.length > 0) await this.#write("open");
    if (this.#stopping.signal.aborted) return;
    this.#idleTimer = setTimeout(() => this.#endIdle(), LIMITS.access_log_idle_ms).unref();
  }

  /** Repeats the batch until it is written or the process stops, because its transaction may have been committed. */
  async #write(state: AccessBatch["state"]): Promise<void> {
    // What arrives from now on is not in this batch. After one that closes the session, the next entry has to open it again first.
    if (state === "closed") this.#isOpen = false;
    const taken = this.#held.splice(0, this.#batchCount());
    const lost = this.#lost;
    this.#n += 1;
    const entries = taken.map(({ entry }) => entry);
    const batch: AccessBatch = { session: this.#session, n: this.#n, state, entries, lost };
    try {
      await this.#repeat(batch, taken);
    } catch (error) {
      if (taken.length > 0) this.#hasDropped = true;
      throw error;
    } finally {
      this.#parts.held.entries -= taken.length;
      this.#count -= taken.length;
    }
    this.#lost -= lost;
    if (state === "open") this.#isOpen = true;
    this.#parts.onWritten(entries.length);
    for (const { waiting } of taken) waiting?.resolve();
  }

  /** A list may show many tasks, and each is a row of the index: a batch that no transaction has room for would be repeated for good. */
  #batchCount(): number {
    let bytes = 0;
    let count = 0;
    for (const { entry } of this.#held) {
      bytes += ENTRY_BYTES + (entry.task_ids?.length ?? 0) * TASK_BYTES;
      if (count > 0 && (bytes > BATCH_BYTES_MAX || count === LIMITS.access_log_block_count_max)) break;
      count += 1;
    }
    return count;
  }

  async #repeat(batch: AccessBatch, taken: readonly HeldEntry[]): Promise<void> {
    const { signal } = this.#stopping;
    for (let attempts = 1; ; attempts += 1) {
      try {
        await this.#parts.write(batch);
        this.#isFailing = false;
        return;
      } catch (error) {
        this.#isFailing = true;
        this.#parts.onFailed(error);
        // Those of the next batch would wait for this one too.
        for (const { waiting } of [...taken, ...this.#held]) waiting?.reject(error);
        if (signal.aborted) throw error;
        await pause(backoffMs(attempts, BACKOFF), undefined, { signal }).catch(() => {});
      }
    }
  }

  #clearTimers(): void {
    clearTimeout(this.#flushTimer);
    clearTimeout(this.#idleTimer);
    this.#flushTimer = undefined;
    this.#idleTimer = undefined;
  }
}
