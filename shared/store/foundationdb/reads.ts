/**
 * The reads of one attempt, and the time limit of the attempt.
 *
 * Every promise of the client library is caught at once, because the rejection of one that is not awaited
 * would end the process. All are awaited before the commit, which fails during a read.
 */
import type { KeySelector, Transaction } from "foundationdb";
import type { Clock } from "../../runtime/clock.ts";
import {
  type Bytes,
  type KeyRange,
  type RangePage,
  type Reader,
  STORE_LIMITS,
  StoreError,
} from "../store.ts";
import { bufferOf, type Client, type Connection } from "./client.ts";
import { storeErrorOf } from "./errors.ts";
import { openResult } from "./results.ts";

/** Throws when a read is not allowed, before the engine is called. */
export interface ReadCheck {
  get(key: Bytes): void;
  getRange(range: KeyRange, limit: number): void;
}

type PageOptions = { limit: number; reverse?: boolean };

export class Reads {
  readonly #client: Client;
  readonly #pending = new Set<Promise<unknown>>();
  readonly #clock: Clock;
  readonly #startedAt: number;
  #ended = false;
  #failure: StoreError | undefined;

  constructor({ client, clock }: Connection) {
    this.#client = client;
    this.#clock = clock;
    this.#startedAt = clock.monotonic();
  }

  /**
   * A failure after which a new attempt may succeed. This attempt must fail with it, even when the body
   * ignored it.
   */
  get failure(): StoreError | undefined {
    return this.#failure;
  }

  /** Throws when the attempt has ended or is too old. */
  check(): void {
    if (this.#ended) throw new StoreError("invalid", "the transaction attempt has ended");
    if (this.#clock.monotonic() - this.#startedAt <= STORE_LIMITS.transaction_ms_max) return;
    this.#failure ??= new StoreError("too_old", "the transaction took too long", {
      details: { transaction_ms_max: STORE_LIMITS.transaction_ms_max },
    });
    throw this.#failure;
  }

  /** From here on the attempt throws when it is used. */
  end(): void {
    this.#ended = true;
  }

  /** Resolves when all reads have ended. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  /** Fixes the snapshot of this transaction, as its first read does. */
  begin(native: Transaction): void {
    this.#read(() => openResult(native.getReadVersion(), () => native.rawCancel()));
  }

  reader(native: Transaction, check: ReadCheck): Reader {
    const get = (key: Bytes) =>
      this.#read(async () => {
        check.get(key);
        return await openResult(native.get(bufferOf(key)), () => native.rawCancel());
      });
    const getMany = (keys: readonly Bytes[]) => caught(Promise.all(keys.map(get)));
    const getRange = (range: KeyRange, options: PageOptions) =>
      this.#read(() => {
        check.getRange(range, options.limit);
        return this.#page(native, range, options);
      });
    return { get, getMany, getRange };
  }

  async #page(native: Transaction, range: KeyRange, options: PageOptions): Promise<RangePage> {
    const { limit, reverse = false } = options;
    const selector = (key: Bytes): KeySelector => this.#client.keySelector.firstGreaterOrEqual(bufferOf(key));
    const [begin, end] = [selector(range.begin), selector(range.end)];
    const { Exact } = this.#client.StreamingMode;
    const page = native.getRangeNative(begin, end, limit, 0, Exact, 1, reverse);
    const { results, more } = await openResult(page, () => native.rawCancel());
    const rows = results.map(([key, value]) => ({ key, value }));
    // A full page has `more` on every engine: a precise answer would have to read another row, and conflict
    // with it.
    return { rows, more: more || rows.length === limit };
  }

  #read<T>(start: () => Promise<T>): Promise<T> {
    const read = caught(this.#reading(start));
    this.#pending.add(read);
    const remove = () => this.#pending.delete(read);
    read.then(remove, remove);
    return read;
  }

  async #reading<T>(start: () => Promise<T>): Promise<T> {
    this.check();
    try {
      return await start();
    } catch (error) {
      const failure = storeErrorOf(error, "before_commit");
      // This deadline is the attempt's; the operation watches its own.
      if (failure.retryable || failure.kind === "deadline") this.#failure ??= failure;
      throw failure;
    }
  }
}

/**
 * A rejection that is not awaited must not end the process. A caller that awaits the promise still gets it.
 */
export function caught<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
