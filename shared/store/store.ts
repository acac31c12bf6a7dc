/**
 * The ordered key-value interface through which every record of Fleet is written, on all engines.
 *
 * The guarantees of every driver (test/contract/store.ts tests each of them):
 * - `transact` is strictly serialisable: a transaction that starts after another's commit returned sees it.
 *   Conflicts may be spurious, never missed.
 * - The body may run many times. Each attempt gets a new {@link Tx}; an earlier one throws when used.
 * - Success means durable on disk, and everything that a reader sees is durable too.
 * - Every operation ends within its deadline, even when the engine hangs.
 * - The same limits hold everywhere and are checked before the engine is called ({@link STORE_LIMITS}).
 *
 * Deliberately absent: key selectors, unbounded ranges, write-conflict ranges, directories, tenants.
 */
import type { StoreCluster } from "../protocol/diagnosis.ts";

export type Bytes = Uint8Array;

/** Half-open: `begin` is in the range, `end` is not. */
export interface KeyRange {
  readonly begin: Bytes;
  readonly end: Bytes;
}

export interface KeyValue {
  readonly key: Bytes;
  readonly value: Bytes;
}

/** One page of a range. `more` means: continue after the last key of `rows`. */
export interface RangePage {
  readonly rows: KeyValue[];
  readonly more: boolean;
}

export const STORE_LIMITS = {
  key_bytes_max: 1_024,
  value_bytes_max: 65_536,
  transaction_bytes_max: 1_000_000,
  transaction_ms_max: 4_000,
  range_rows_max: 10_000,
} as const;

/** The length in bytes of a commit stamp. Stamps of later commits are greater in byte order. */
export const STAMP_BYTES = 10;

export type StoreErrorKind =
  | "conflict" // not committed, retried by `transact`
  | "too_old" // the snapshot outlived transaction_ms_max; not committed, retried
  | "throttled" // not committed, retried
  | "unavailable" // not committed: the engine cannot be reached or cannot write (disk full)
  | "commit_unknown" // the outcome cannot be known; see `committed`
  | "deadline"
  | "aborted"
  | "too_large"
  | "invalid"
  | "unreadable" // a read of a range in which this transaction wrote stamped keys
  | "closed"
  | "fatal";

/**
 * Whether the failed transaction may have taken effect: no, perhaps already (`maybe_settled`), or perhaps
 * later (`maybe_in_flight`).
 */
export type CommitOutcome = "no" | "maybe_settled" | "maybe_in_flight";

/** Every failure of a store. `message` is static text; the facts are in `details`. */
export class StoreError extends Error {
  readonly kind: StoreErrorKind;
  readonly committed: CommitOutcome;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    kind: StoreErrorKind,
    message: string,
    options: { committed?: CommitOutcome; details?: Record<string, unknown>; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "StoreError";
    this.kind = kind;
    this.committed = options.committed ?? "no";
    this.details = options.details ?? {};
  }

  /** True when the same body may succeed in another attempt. */
  get retryable(): boolean {
    return this.kind === "conflict" || this.kind === "too_old" || this.kind === "throttled";
  }
}

export interface ReadOptions {
  /** The name of the transaction in metrics, traces and errors. */
  readonly label: string;
  /** The limit of all attempts together, in milliseconds. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
}

export interface TransactOptions extends ReadOptions {
  readonly maxAttempts?: number;
  /** `batch` work yields to `default` work when both wait. */
  readonly priority?: "default" | "batch";
  /**
   * `safe`: the body may be applied twice, because it reads the keys on which it decides (an idempotency
   * record, or the keys that it writes), so an unknown commit result is retried. A blind write is not safe: a
   * late commit of an earlier attempt could land after a newer write. `unsafe`: the unknown result is thrown.
   * An error of the body is thrown as it is, unless the commit of an earlier attempt may be in flight: then it is the
   * cause of `commit_unknown`.
   * There is no default, so every caller decides.
   */
  readonly onUnknown: "safe" | "unsafe";
}

export interface CommitResult<T> {
  readonly value: T;
  /** The stamp of the commit ({@link STAMP_BYTES} long); null when nothing was written. */
  readonly stamp: Bytes | null;
  readonly attempts: number;
}

/**
 * Reads. Returned arrays belong to the caller. Arrays that are passed to the store must not be changed
 * afterwards.
 */
export interface Reader {
  get(key: Bytes): Promise<Bytes | undefined>;
  getMany(keys: readonly Bytes[]): Promise<(Bytes | undefined)[]>;
  /** `limit` is at most `range_rows_max`. `reverse` begins at the end of the range. */
  getRange(range: KeyRange, options: { limit: number; reverse?: boolean }): Promise<RangePage>;
}

export interface Tx extends Reader {
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Reads without read conflicts that still see this transaction's own writes. */
  readonly snapshot: Reader;
  /**
   * `envelope`, here and below: that many bytes of the value surround the caller's content, as encryption does. They
   * do not count, so that the same content has the same limits with and without them.
   */
  set(key: Bytes, value: Bytes, envelope?: number): void;
  clear(key: Bytes): void;
  clearRange(range: KeyRange): void;
  /** Adds to a little-endian signed 64-bit integer; an absent one counts as 0; wraps; never conflicts. */
  addI64(key: Bytes, delta: bigint): void;
  /** Sets the key to the greater of its value and `value`, in byte order; never conflicts. */
  byteMax(key: Bytes, value: Bytes): void;
  /**
   * Writes `prefix ‖ stamp (10) ‖ order (u16, big-endian, counted per attempt from 0) ‖ suffix`. The key
   * cannot be read in this transaction: a read of a range that could hold it is `unreadable`. So read first,
   * and write stamped keys last.
   */
  setStampedKey(prefix: Bytes, suffix: Bytes, value: Bytes, envelope?: number): void;
  /**
   * Writes the value `prefix ‖ stamp (10) ‖ suffix` at `key`. A later read of `key` in this transaction is
   * `unreadable`.
   */
  setStampedValue(key: Bytes, prefix: Bytes, suffix: Bytes, envelope?: number): void;
  addReadConflict(range: KeyRange): void;
  /** The size of this transaction so far, counted in the same way on every engine. */
  approximateBytes(): number;
}

export interface StoreHealth {
  readonly ok: boolean;
  /** The probe or the problem, for operators. */
  readonly detail: string;
  readonly commitProbeMs?: number;
}

export interface Store {
  readonly name: "lmdb" | "foundationdb" | "memory";
  transact<T>(options: TransactOptions, body: (tx: Tx) => Promise<T>): Promise<CommitResult<T>>;
  /** One consistent snapshot for the whole body. */
  read<T>(options: ReadOptions, body: (reader: Reader) => Promise<T>): Promise<T>;
  /**
   * Resolves when the value of `key` may differ from `lastSeen`, at the latest after `pollMs`. Wake-ups may
   * be spurious and changes may coalesce; resolves (does not reject) when `signal` aborts.
   */
  changed(
    key: Bytes,
    lastSeen: Bytes | undefined,
    options: { signal: AbortSignal; pollMs: number },
  ): Promise<void>;
  /** Answers within `timeoutMs`, even when the engine does not. */
  health(options: { timeoutMs: number }): Promise<StoreHealth>;
  /** The engine's view of its machines, within about `timeoutMs`. Absent: it has none. Throws StoreError. */
  readonly clusterStatus?: (options: { timeoutMs: number }) => Promise<StoreCluster>;
  /** Refuses new operations, waits up to `drainMs` for the running ones, ends every `changed`, and closes. */
  close(options: { drainMs: number }): Promise<void>;
}
