/**
 * The reads of one attempt, and how long it may be used.
 *
 * No promise of the client library is left alone. Each is caught at once, because one that nobody awaits would end the
 * process when it is rejected, and all are awaited before the commit, which fails while a read is under way.
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
import { owedResult } from "./results.ts";

/** Throws when a read is not allowed, before the engine is asked. */
export interface Admission {
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

  /** A failure that a new attempt may repair. This attempt must fail by it, whatever the body made of it. */
  get failure(): StoreError | undefined {
    return this.#failure;
  }

  /** Throws when the attempt has ended or is too old to go on. */
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

  /** When no read is under way any more. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  /** Fixes what this transaction sees, as its first read does. */
  begin(native: Transaction): void {
    this.#read(() => owedResult(native.getReadVersion(), () => native.rawCancel()));
  }

  reader(native: Transaction, admission: Admission): Reader {
    const get = (key: Bytes) =>
      this.#read(async () => {
        admission.get(key);
        return await owedResult(native.get(bufferOf(key)), () => native.rawCancel());
      });
    const getMany = (keys: readonly Bytes[]) => caught(Promise.all(keys.map(get)));
    const getRange = (range: KeyRange, options: PageOptions) =>
      this.#read(() => {
        admission.getRange(range, options.limit);
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
    const { results, more } = await owedResult(page, () => native.rawCancel());
    const rows = results.map(([key, value]) => ({ key, value }));
    // A full page says "more" on every engine: to know better, another row would have to be read, and conflict.
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
      // A deadline is this attempt's own: the operation's is kept by the operation.
      if (failure.retryable || failure.kind === "deadline") this.#failure ??= failure;
      throw failure;
    }
  }
}

/** A rejection that nobody awaits must not end the process; whoever does await it still gets it. */
export function caught<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
