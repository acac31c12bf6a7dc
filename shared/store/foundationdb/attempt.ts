/**
 * One attempt of a transaction: the store's {@link Tx} over one FoundationDB transaction.
 *
 * Every attempt has its own FoundationDB transaction, so it cannot see an earlier attempt. It throws once it
 * has ended, so a body that kept the `tx` cannot write into the next attempt.
 */
import type { Transaction } from "foundationdb";
import { TransactionMeter } from "../limits.ts";
import type { Bytes, KeyRange, RangePage, Reader, StoreError, Tx } from "../store.ts";
import { bufferOf, type Client, type Connection, type EngineOptions, newTransaction } from "./client.ts";
import { storeErrorOf } from "./errors.ts";
import { Reads } from "./reads.ts";
import { openResult } from "./results.ts";
import { stampedKeyOperand, stampedValueOperand } from "./stamps.ts";

export class FoundationdbAttempt implements Tx {
  readonly attempt: number;
  readonly snapshot: Reader;
  readonly #mutations: Client["MutationType"];
  readonly #native: Transaction;
  readonly #meter = new TransactionMeter();
  readonly #reads: Reads;
  readonly #reader: Reader;
  #wrote = false;
  #committing = false;

  constructor(connection: Connection, attempt: number, options: EngineOptions) {
    this.attempt = attempt;
    this.#mutations = connection.client.MutationType;
    this.#native = newTransaction(connection, options);
    const meter = this.#meter;
    this.#reads = new Reads(connection);
    this.#reader = this.#reads.reader(this.#native, meter);
    this.snapshot = this.#reads.reader(this.#native.snapshot(), {
      get: (key) => meter.snapshotGet(key),
      getRange: (range, limit) => meter.snapshotGetRange(range, limit),
    });
  }

  /** True from the moment the commit is sent until its result is known. */
  get committing(): boolean {
    return this.#committing;
  }

  /**
   * A failure after which a new attempt may succeed. This attempt must fail with it, even when the body
   * ignored it.
   */
  get failure(): StoreError | undefined {
    return this.#reads.failure;
  }

  get(key: Bytes): Promise<Bytes | undefined> {
    return this.#reader.get(key);
  }

  getMany(keys: readonly Bytes[]): Promise<(Bytes | undefined)[]> {
    return this.#reader.getMany(keys);
  }

  getRange(range: KeyRange, options: { limit: number; reverse?: boolean }): Promise<RangePage> {
    return this.#reader.getRange(range, options);
  }

  set(key: Bytes, value: Bytes, envelope?: number): void {
    this.#write((native) => {
      this.#meter.set(key, value, envelope);
      native.set(bufferOf(key), bufferOf(value));
    });
  }

  clear(key: Bytes): void {
    this.#write((native) => {
      this.#meter.clear(key);
      native.clear(bufferOf(key));
    });
  }

  clearRange(range: KeyRange): void {
    this.#apply((native) => {
      this.#meter.clearRange(range);
      // The engine drops an empty range, and then refuses a stamp to a transaction without other writes.
      if (Buffer.compare(range.begin, range.end) === 0) return;
      native.clearRange(bufferOf(range.begin), bufferOf(range.end));
      this.#wrote = true;
    });
  }

  addI64(key: Bytes, delta: bigint): void {
    this.#write((native) => {
      this.#meter.addI64(key, delta);
      const operand = Buffer.alloc(8);
      operand.writeBigInt64LE(delta);
      native.atomicOpNative(this.#mutations.Add, bufferOf(key), operand);
    });
  }

  byteMax(key: Bytes, value: Bytes): void {
    this.#write((native) => {
      this.#meter.byteMax(key, value);
      native.atomicOpNative(this.#mutations.ByteMax, bufferOf(key), bufferOf(value));
    });
  }

  setStampedKey(prefix: Bytes, suffix: Bytes, value: Bytes, envelope?: number): void {
    this.#write((native) => {
      const order = this.#meter.setStampedKey(prefix, suffix, value, envelope);
      const operand = stampedKeyOperand(prefix, order, suffix);
      native.atomicOpNative(this.#mutations.SetVersionstampedKey, operand, bufferOf(value));
    });
  }

  setStampedValue(key: Bytes, prefix: Bytes, suffix: Bytes, envelope?: number): void {
    this.#write((native) => {
      this.#meter.setStampedValue(key, prefix, suffix, envelope);
      const operand = stampedValueOperand(prefix, suffix);
      native.atomicOpNative(this.#mutations.SetVersionstampedValue, bufferOf(key), operand);
    });
  }

  addReadConflict(range: KeyRange): void {
    this.#apply((native) => {
      this.#meter.addReadConflict(range);
      native.addReadConflictRange(bufferOf(range.begin), bufferOf(range.end));
      // Without a read the engine would look for conflicts from the commit on, and find none.
      this.#reads.begin(native);
    });
  }

  /** Makes the commit pass through the whole cluster although nothing is written, as a probe. */
  addWriteConflict(range: KeyRange): void {
    this.#write((native) => native.addWriteConflictRange(bufferOf(range.begin), bufferOf(range.end)));
  }

  approximateBytes(): number {
    return this.#meter.bytes;
  }

  /** Ends the attempt and waits for its reads. */
  async finish(): Promise<void> {
    this.#reads.check();
    this.#reads.end();
    await this.#reads.settled();
    if (this.#reads.failure !== undefined) throw this.#reads.failure;
  }

  /** Returns the stamp of the commit; null when nothing was written, and then the engine is not called. */
  async commit(): Promise<Bytes | null> {
    await this.finish();
    if (!this.#wrote) return null;
    this.#committing = true;
    try {
      // The stamp must be requested before the commit.
      const native = this.#native;
      const stamp = openResult(native.getVersionstamp().promise, () => native.rawCancel());
      await openResult(native.rawCommit(), () => native.rawCancel());
      return await stamp;
    } catch (error) {
      throw storeErrorOf(error, "commit");
    } finally {
      this.#committing = false;
    }
  }

  /**
   * Ends the attempt: the engine refuses its open calls, but a commit that was sent may still take effect.
   */
  cancel(): void {
    this.#reads.end();
    this.#native.rawCancel();
  }

  #write(change: (native: Transaction) => void): void {
    this.#apply(change);
    this.#wrote = true;
  }

  #apply(change: (native: Transaction) => void): void {
    this.#reads.check();
    try {
      change(this.#native);
    } catch (error) {
      throw storeErrorOf(error, "before_commit");
    }
  }
}
