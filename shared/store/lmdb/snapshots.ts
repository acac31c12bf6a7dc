/**
 * Read snapshots of LMDB on a serving thread. Transactions that begin between two commits share one: the engine has a
 * bounded table of readers, and a thousand transactions may be under way. Whether there was a commit the engine itself is
 * asked, since other threads and processes commit as well.
 *
 * A pinned snapshot keeps every page that was replaced since from being used again, and the file grows. So none outlives
 * the age limit of transactions, whatever the body does: it is let go, and its transaction throws `too_old`.
 */
import type { Transaction } from "lmdb";
import type { Clock } from "../../runtime/clock.ts";
import type { Snapshot } from "../optimistic/engine.ts";
import { SEQUENCE_KEY } from "../optimistic/keys.ts";
import { type Bytes, type KeyRange, STORE_LIMITS, StoreError } from "../store.ts";
import { isOfTransaction, type LmdbEnvironment, lastTransaction, rowsOf } from "./environment.ts";

/** An older snapshot is not shared, although still newest: it would shorten the life of the transaction. */
const SHARE_MS = 50;
const SWEEP_MS = 500;

export class Snapshots {
  readonly #database: LmdbEnvironment;
  readonly #clock: Clock;
  readonly #open = new Set<Pin>();
  #newest: Pin | undefined;
  #sweep: NodeJS.Timeout | undefined;
  #known: number | undefined;
  #ofThisTurn: Pin | undefined;
  readonly #forget = (): void => {
    this.#known = undefined;
    this.#ofThisTurn = undefined;
  };

  constructor(database: LmdbEnvironment, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  take(): Snapshot {
    const now = this.#clock.monotonic();
    let pin = this.#newest;
    const commits = this.#commitsNow();
    const isCurrent = pin !== undefined && (pin === this.#ofThisTurn || pin.commits === commits);
    if (pin === undefined || pin.released || !isCurrent || now - pin.openedAt > SHARE_MS) {
      pin = new Pin(this.#database, { openedAt: now, commits }, (ended) => this.#ended(ended));
      this.#newest = pin;
      this.#ofThisTurn = pin;
      this.#open.add(pin);
      this.#sweep ??= setInterval(() => this.#expire(), SWEEP_MS).unref();
    }
    return pin.share();
  }

  /** Changes with every commit, whoever makes it. */
  commits(): number {
    return lastTransaction(this.#database);
  }

  /**
   * Like {@link commits}, asked once for all transactions that begin in one run of the event loop's callback: what made them begin
   * had arrived before it.
   */
  #commitsNow(): number {
    if (this.#known === undefined) {
      this.#known = this.commits();
      queueMicrotask(this.#forget);
    }
    return this.#known;
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
   * The engine's count of commits when this was pinned; undefined when this does not hold exactly those. The engine counts a commit when
   * its page is written, and shows it to new snapshots when that page is on disk: one of the moment between may not be shared with
   * transactions that begin after the commit was answered.
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
    database.resetReadTxn(); // or the snapshot may be one from earlier in this turn of the event loop
    this.#transaction = database.useReadTransaction();
    const sequence = this.#read(SEQUENCE_KEY);
    this.sequence = sequence?.readBigUInt64BE() ?? 0n;
    // Every commit writes the sequence, so its page is of the last one that is held. Without a page nothing can be told.
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
    // Reading through a finished engine transaction ends the process.
    if (this.#released) throw new StoreError("too_old", "the snapshot was let go because of its age");
  }
}
