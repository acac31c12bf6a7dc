/**
 * One attempt of a transaction over an engine that offers snapshots and a single writer (LMDB, memory).
 *
 * Reads see the attempt's own writes first, then its snapshot, and everything on which they depend is
 * recorded. Writes are only collected. The commit submits both: the writer compares the reads, then writes.
 * No lock is held while the body runs, so a slow or stuck body delays no other transaction.
 */
import type { Clock } from "../../runtime/clock.ts";
import { TransactionMeter } from "../limits.ts";
import {
  type Bytes,
  type KeyRange,
  type RangePage,
  type Reader,
  STORE_LIMITS,
  StoreError,
  type Tx,
} from "../store.ts";
import type { Snapshot } from "./engine.ts";
import { rowsEvidence } from "./evidence.ts";
import { keyText } from "./keys.ts";
import { Overlay, seenThrough } from "./overlay.ts";
import { readPage } from "./page.ts";
import { type CommitRequest, ReadSet } from "./request.ts";
import { StampedRanges } from "./stamps.ts";

/** A submitted commit. */
export interface PendingCommit {
  /** Resolves with the stamp; rejects with a StoreError. */
  readonly done: Promise<Bytes>;
  /** True once it has left the queue: then it may take effect and cannot be withdrawn. */
  readonly handedOver: boolean;
  /** A request that is still in the queue will not be applied. */
  withdraw(): void;
}

export interface AttemptContext {
  readonly clock: Clock;
  readonly snapshot: Snapshot;
  submit(request: CommitRequest): PendingCommit;
}

export class OptimisticAttempt implements Tx {
  readonly attempt: number;
  readonly snapshot: Reader;
  readonly #context: AttemptContext;
  readonly #meter = new TransactionMeter();
  #overlay = new Overlay();
  #reads = new ReadSet();
  readonly #stamped = new StampedRanges();
  #ended = false;
  #released = false;
  #pending: PendingCommit | undefined;

  constructor(number: number, context: AttemptContext) {
    this.attempt = number;
    this.#context = context;
    this.snapshot = {
      get: async (key) => this.#get(key, false),
      getMany: async (keys) => keys.map((key) => this.#get(key, false)),
      getRange: async (range, options) => this.#getRange(range, options, false),
    };
  }

  async get(key: Bytes): Promise<Bytes | undefined> {
    return this.#get(key, true);
  }

  async getMany(keys: readonly Bytes[]): Promise<(Bytes | undefined)[]> {
    return keys.map((key) => this.#get(key, true));
  }

  async getRange(range: KeyRange, options: { limit: number; reverse?: boolean }): Promise<RangePage> {
    return this.#getRange(range, options, true);
  }

  set(key: Bytes, value: Bytes, envelope?: number): void {
    this.#check();
    this.#meter.set(key, value, envelope);
    this.#overlay.set(key, value);
  }

  clear(key: Bytes): void {
    this.#check();
    this.#meter.clear(key);
    this.#overlay.set(key, undefined);
  }

  clearRange(range: KeyRange): void {
    this.#check();
    this.#meter.clearRange(range);
    this.#overlay.clearRange(range);
  }

  addI64(key: Bytes, delta: bigint): void {
    this.#check();
    this.#meter.addI64(key, delta);
    this.#overlay.atomic(key, { kind: "add_i64", delta });
  }

  byteMax(key: Bytes, value: Bytes): void {
    this.#check();
    this.#meter.byteMax(key, value);
    this.#overlay.atomic(key, { kind: "byte_max", value });
  }

  setStampedKey(prefix: Bytes, suffix: Bytes, value: Bytes, envelope?: number): void {
    this.#check();
    const order = this.#meter.setStampedKey(prefix, suffix, value, envelope);
    this.#overlay.setStampedKey({ prefix, suffix, order, value });
    this.#stamped.addKeysUnder(prefix);
  }

  setStampedValue(key: Bytes, prefix: Bytes, suffix: Bytes, envelope?: number): void {
    this.#check();
    this.#meter.setStampedValue(key, prefix, suffix, envelope);
    this.#overlay.setStampedValue(key, prefix, suffix);
  }

  addReadConflict(range: KeyRange): void {
    this.#check();
    this.#meter.addReadConflict(range);
    if (Buffer.compare(range.begin, range.end) === 0) return;
    const rows = this.#context.snapshot.rows(range, STORE_LIMITS.range_rows_max + 1, false);
    if (rows.length > STORE_LIMITS.range_rows_max) this.#reads.guard = true;
    else this.#reads.range(range, rows.length, rowsEvidence(rows));
  }

  approximateBytes(): number {
    return this.#meter.bytes;
  }

  /**
   * Returns the stamp of the commit; null when nothing was written: all reads are of one snapshot, so there
   * is nothing to compare.
   */
  async commit(): Promise<Bytes | null> {
    this.finish();
    if (this.#overlay.empty) return null;
    this.#pending = this.#context.submit({
      sequence: this.#context.snapshot.sequence,
      reads: this.#reads,
      overlay: this.#overlay,
    });
    // The request is encoded by now. Kept until the commit returns, these would be most of the garbage
    // collector's work.
    this.#overlay = new Overlay();
    this.#reads = new ReadSet();
    try {
      return await this.#pending.done;
    } finally {
      this.#pending = undefined;
    }
  }

  /** Ends the reads and writes of the attempt. */
  finish(): void {
    this.#check(); // a body may have swallowed the failure of an expired snapshot
    this.#end();
  }

  /** True while a commit cannot be withdrawn and its result is not known. */
  get committing(): boolean {
    return this.#pending?.handedOver ?? false;
  }

  /**
   * Ends the attempt from outside. A queued commit is withdrawn; one that was handed over may take effect.
   */
  cancel(): void {
    this.#end();
    this.#pending?.withdraw();
  }

  #end(): void {
    this.#ended = true;
    if (this.#released) return;
    this.#released = true;
    this.#context.snapshot.release();
  }

  #check(): void {
    if (this.#ended) throw new StoreError("invalid", "the transaction was used after its attempt ended");
    const age = this.#context.clock.monotonic() - this.#context.snapshot.openedAt;
    if (age > STORE_LIMITS.transaction_ms_max) {
      throw new StoreError("too_old", "the transaction is older than its snapshot may be");
    }
  }

  #get(key: Bytes, record: boolean): Bytes | undefined {
    this.#check();
    if (record) this.#meter.get(key);
    else this.#meter.snapshotGet(key);
    this.#stamped.checkKey(key);
    // Most reads come before the first write.
    const own = this.#overlay.empty ? undefined : this.#overlay.at(keyText(key));
    if (own === "cleared") return undefined;
    if (own?.kind === "value") return own.value && Uint8Array.from(own.value);
    const stored = this.#context.snapshot.get(key);
    if (record) this.#reads.key(key, stored);
    if (own === undefined) return stored;
    const seen = seenThrough(own, stored);
    return seen && Uint8Array.from(seen); // never the array that will be committed
  }

  #getRange(range: KeyRange, options: { limit: number; reverse?: boolean }, record: boolean): RangePage {
    this.#check();
    const { limit, reverse = false } = options;
    if (record) this.#meter.getRange(range, limit);
    else this.#meter.snapshotGetRange(range, limit);
    this.#stamped.checkRange(range);
    if (Buffer.compare(range.begin, range.end) === 0) return { rows: [], more: false };
    const page = readPage(
      { snapshot: this.#context.snapshot, overlay: this.#overlay },
      range,
      limit,
      reverse,
    );
    if (record) this.#reads.range(page.consumed, page.stored.length, rowsEvidence(page.stored));
    return { rows: page.rows, more: page.more };
  }
}
