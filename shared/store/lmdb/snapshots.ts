/**
 * Read snapshots of LMDB on a serving thread. Transactions that begin between two commits share one snapshot:
 * the engine's table of readers is bounded, and a thousand transactions may be open. The engine itself counts
 * the commits, because other threads and processes commit as well.
 *
 * A pinned snapshot prevents the reuse of every page that has been replaced since, and the file grows. So no
 * snapshot outlives the age limit of transactions, even when the body hangs: it is released, and its
 * transaction throws `too_old`.
 */
import type { Transaction } from "lmdb";
import type { Clock } from "../../runtime/clock.ts";
import type { Snapshot } from "../optimistic/engine.ts";
import { SEQUENCE_KEY } from "../optimistic/keys.ts";
import { type Bytes, type KeyRange, STORE_LIMITS, StoreError } from "../store.ts";
import { isOfTransaction, type LmdbEnvironment, lastTransaction, rowsOf } from "./environment.ts";

/**
 * An older snapshot is not shared, even when it is the newest: it would shorten the life of the transaction.
 */
const SHARE_MS = 50;
const SWEEP_MS = 500;

export class Snapshots {
  readonly #database: LmdbEnvironment;
  readonly #clock: Clock;
  readonly #open = new Set<Pin>();
  #newest: Pin | undefined;
  #sweep: NodeJS.Timeout | undefined;
  /** The count of commits and the snapshot of this callback of the event loop. */
  #currentCommits: number | undefined;
  #currentPin: Pin | undefined;
  readonly #endRun = (): void => {
    this.#currentCommits = undefined;
    this.#currentPin = undefined;
  };

  constructor(database: LmdbEnvironment, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  take(): Snapshot {
    const now = this.#clock.monotonic();
    let pin = this.#newest;
    const commits = this.#commitsNow();
    const isCurrent = pin !== undefined && (pin === this.#currentPin || pin.commits === commits);
    if (pin === undefined || pin.released || !isCurrent || now - pin.openedAt > SHARE_MS) {
      pin = new Pin(this.#database, { openedAt: now, commits }, (ended) => this.#ended(ended));
      this.#newest = pin;
      this.#currentPin = pin;
      this.#open.add(pin);
      this.#sweep ??= setInterval(() => this.#expire(), SWEEP_MS).unref();
    }
    return pin.share();
  }

  /** Changes with every commit of any thread or process. */
  commits(): number {
    return lastTransaction(this.#database);
  }

  /**
   * Like {@link commits}, but read once for all transactions that begin in one callback of the event loop, with
   * its microtasks: the events that started them had arrived before it. A tick ends after all microtasks.
   */
  #commitsNow(): number {
    if (this.#currentCommits === undefined) {
      this.#currentCommits = this.commits();
      process.nextTick(this.#endRun);
    }
    return this.#currentCommits;
  }

  close(): void {
    for (const pin of this.#open) pin.release();
  }

  #expire(): void {
    const oldest = this.#clock.monotonic() - STORE_LIMITS.transaction_ms_max;
    for (const pin of this.#open) if (pin.openedAt < oldest) pin.release();
  }

  #ended(pin: Pin): void {
    this.#open.delete(pin);
    if (this.#newest === pin) this.#newest = undefined;
    if (this.#open.size > 0) return;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }
}

class Pin {
  readonly openedAt: number;
  /**
   * The engine's count of commits when this was pinned; undefined when the snapshot does not contain exactly
   * these. The engine counts a commit when its page is written, and shows it to new snapshots when that page
   * is on disk. A snapshot from the moment between must not be shared with transactions that begin after the
   * commit was answered.
   */
  readonly commits: number | undefined;
  readonly sequence: bigint;
  readonly #database: LmdbEnvironment;
  readonly #transaction: Transaction;
  readonly #ended: (pin: Pin) => void;
  #users = 0;
  #released = false;

  constructor(
    database: LmdbEnvironment,
    { openedAt, commits }: { openedAt: number; commits: number },
    ended: (pin: Pin) => void,
  ) {
    this.#database = database;
    this.openedAt = openedAt;
    this.#ended = ended;
    database.resetReadTxn(); // otherwise the snapshot may be from earlier in this turn of the event loop
    this.#transaction = database.useReadTransaction();
    const sequence = this.#read(SEQUENCE_KEY);
    this.sequence = sequence?.readBigUInt64BE() ?? 0n;
    // Every commit writes the sequence, so its page names the last commit in this snapshot. Without a page
    // that is unknown.
    this.commits = sequence !== undefined && isOfTransaction(commits) ? commits : undefined;
  }

  get released(): boolean {
    return this.#released;
  }

  share(): Snapshot {
    this.#users += 1;
    return {
      sequence: this.sequence,
      openedAt: this.openedAt,
      get: (key) => this.#read(key),
      rows: (range, limit, reverse) => this.#rows(range, limit, reverse),
      release: () => {
        this.#users -= 1;
        if (this.#users === 0) this.release();
      },
    };
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#transaction.done();
    this.#ended(this);
  }

  #read(key: Bytes): Buffer | undefined {
    this.#check();
    return this.#database.get(Buffer.from(key.buffer, key.byteOffset, key.byteLength), {
      transaction: this.#transaction,
    });
  }

  #rows(range: KeyRange, limit: number, reverse: boolean) {
    this.#check();
    return rowsOf(this.#database, range, { limit, reverse, transaction: this.#transaction });
  }

  #check(): void {
    // A read through a finished engine transaction ends the process.
    if (this.#released) throw new StoreError("too_old", "the snapshot was released because of its age");
  }
}
